// The bytes of an unauthenticated peer at the port of a job, and of one that plays rank 0.
#include "launch/run/channel.h"

#include <sys/socket.h>

#include "target.h"

FUZZ_TARGET(handshake) {
  using namespace optrush;
  for (const auto end : {Handshake::End::rank_0, Handshake::End::other}) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
      fuzz::fail("no pair of sockets");
    const Descriptor far(ends[0]);
    Channel channel(Descriptor(ends[1]), 4096, Handshake(end, JobSecret{"a secret of the fuzz target"}));
    channel.send({{"type", "hello"}});
    static_cast<void>(::send(far.get(), data, size, MSG_NOSIGNAL));
    ::shutdown(far.get(), SHUT_WR);
    fuzz::feed([&] {
      for (int i = 0; i < 3; ++i)
        fuzz::hold(!channel.receive(), "no message of an unauthenticated peer is read");
      fuzz::hold(!channel.is_open(), "a channel ends where the other side does");
    });
    fuzz::hold(!channel.is_trusted(), "an unauthenticated peer is not trusted");
    std::string heard(4096, '\0');
    const ssize_t got = ::recv(far.get(), heard.data(), heard.size(), 0);
    fuzz::hold(got <= 40 + 32, "an unauthenticated peer gets no line");
  }
  return 0;
}
