#include "launch/fork_server.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/seconds_since.h"
#include "base/suggest.h"
#include "machine/fork_protocol.h"
#include "optrush/error.h"
#include "process/orphans.h"

namespace optrush {
namespace {
constexpr size_t kLongestAnswer = 4096;
constexpr std::chrono::milliseconds kTick{250};

/// Both ends of a connection; the second one blocks.
std::pair<Descriptor, Descriptor> connection() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(ErrorCode::file_access, std::string("cannot create a socket: ") + std::strerror(errno));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}
}  // namespace

ForkServer::Server::Server(const std::filesystem::path& worker, const Environment& added)
    : environment(environment_with(added)), channel(Descriptor(), kLongestAnswer) {
  auto [here, there] = connection();
  channel = Channel(std::move(here), kLongestAnswer);
  try {
    // A command that is started as usual tells why there is no server, so this one's output is not kept.
    process = std::make_unique<Process>(Command{.arguments = {worker.string(), "fork-server"},
                                                .environment = added,
                                                .log = "/dev/null",
                                                .input = there.get(),
                                                .helper = true});
  } catch (const Error&) {
    channel.close();
  }
}

ProcessEnd ForkServer::run(const Command& command, const Limits& limits, Interrupts& interrupts) {
  const auto start = std::chrono::steady_clock::now();
  if (const auto process = forked(command, start, limits, interrupts)) {
    const ProcessEnd end = run_to_end(*process, start, limits, interrupts);
    if (end.kind != ProcessEnd::Kind::exited || end.code != kNotBegun) return end;
  }
  Process process(command);
  return run_to_end(process, start, limits, interrupts);
}

std::unique_ptr<Process> ForkServer::forked(const Command& command, Time start, const Limits& limits,
                                            Interrupts& interrupts) {
  BoundedLog log(command.log, kLogLimit);
  OomKills kills = OomKills::read();
  std::optional<pid_t> child;
  {
    const AdoptsOrphans adopts;
    if (!server_ || server_->environment != environment_with(command.environment))
      server_.emplace(worker_, command.environment);
    const bool served = server_->has_answered;
    child = ask(command, start, limits, interrupts);
    if (!child && served && interrupts.signal() == 0) {  // it was ended since then
      server_.emplace(worker_, command.environment);
      child = ask(command, start, limits, interrupts);
    }
  }
  if (!child) return nullptr;
  log::debug("forked " + std::to_string(*child) + ": " + join(command.arguments, " "));
  return std::make_unique<Process>(*child, std::move(log), std::move(kills));
}

std::optional<pid_t> ForkServer::ask(const Command& command, Time start, const Limits& limits,
                                     Interrupts& interrupts) {
  Server& server = *server_;
  if (!server.process) return std::nullopt;
  server.channel.send({{"arguments", command.arguments}, {"log", command.log.string()}});
  const auto answer = [&]() -> std::optional<Json> {
    try {
      return server.channel.receive();
    } catch (const Error&) {  // no JSON: it is no worker of this version
      return std::nullopt;
    }
  };
  auto told = answer();
  while (!told && server.channel.is_open()) {
    const double left = limits.timeout_s - seconds_since(start);
    interrupts.take();
    if (left <= 0 || interrupts.signal() != 0) break;
    interrupts.wait(std::min(kTick, std::chrono::milliseconds(static_cast<int64_t>(left * 1000) + 1)),
                    {server.channel.descriptor()});
    told = answer();
  }
  if (!told) {
    server.process.reset();
    told = answer();  // it may have started the child in the meantime
  }
  const Json pid = told ? told->value("pid", Json()) : Json();
  if (!pid.is_number_integer()) {
    server.process.reset();
    log::debug("the fork server has ended" + (told ? ": " + told->dump() : ""));
    return std::nullopt;
  }
  server.has_answered = true;
  return pid.get<pid_t>();
}
}  // namespace optrush
