// Messages between the processes of a launcher's job, read by both sides: lines of JSON over a socket.
#include "launch/ranks/control.h"

#include <sys/socket.h>

#include "launch/run/channel.h"
#include "spec/read_fields.h"
#include "target.h"

namespace {
using namespace optrush;

/// Both sides treat a Json::exception as an invalid message.
void read_message(const Json& message) try {
  const std::string type = message.at("type");
  if (type == "hello") {
    const Hello hello = hello_from_json(message);
    fuzz::hold(to_json(hello_from_json(to_json(hello))) == to_json(hello),
               "a hello is read as it is written");
    const Hello rank_0{.size = 4, .job = "1", .version = hello.version, .script_sha256 = "s"};
    if (refusal(rank_0, hello).empty())
      fuzz::hold(hello.rank > 0 && hello.rank < rank_0.size, "who is taken is a rank of the job");
  }
  if (type == "end") {
    const RankEnd end = rank_end_from_json(message);
    fuzz::hold(to_json(rank_end_from_json(to_json(end))) == to_json(end), "an end is read as it is written");
  }
  if (type == "seen") {
    const Seen seen = seen_from_json(message);
    fuzz::hold(seen_from_json(to_json(seen)) == seen, "what was seen is read as it is written");
  }
  if (type == "signal") fuzz::hold(asks_to_stop(stop_signal_from_json(message)), "it asks to stop");
  if (type == "done" || type == "leave") {
    const int code = closing_message_from_json(message).code;
    fuzz::hold(code >= 0 && code <= 255, "it is an exit code");
  }
  if (type == "start") {
    static_cast<void>(required<int64_t>(message, "run"));
    run_spec_from_json(message.at("spec"), "rank 0");
    static_cast<void>(required<int64_t>(message, "local_size"));
  }
} catch (const Json::exception& e) {
  throw Error(e.what());
}
}  // namespace

FUZZ_TARGET(control) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    fuzz::fail("no pair of sockets");
  const Descriptor far(ends[0]);
  Channel channel(Descriptor(ends[1]), 4096);
  static_cast<void>(::send(far.get(), data, size, MSG_NOSIGNAL));
  ::shutdown(far.get(), SHUT_WR);
  fuzz::feed([&] {
    while (const auto message = channel.receive()) read_message(*message);
    fuzz::hold(!channel.is_open(), "a channel ends where the other side does");
  });
  return 0;
}
