// A job of three ranks: one side is under test, and the test plays the other over a socket.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "fixture.h"
#include "launch/ranks/remote_ranks.h"
#include "machine/socket.h"

namespace optrush::testing {
constexpr size_t kMaxMessageBytes = 1U << 20;

/// Waits some seconds until `happens` is true. Whether it became true.
inline bool becomes_true(const std::function<bool()>& happens) {
  for (int i = 0; i < 2000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(5)))
    if (happens()) return true;
  return false;
}

class JobTest : public Launch {
 protected:
  Launched place(int64_t rank) const {
    return {.launcher = "torchrun",
            .rank = rank,
            .size = 3,
            .local_rank = rank,
            .local_size = 3,
            .address = "127.0.0.1",
            .ports = {port_},
            .job = "j"};
  }
  /// A connection to the port, before anything is sent.
  Descriptor socket() const {
    std::string problem;
    Descriptor socket = connect_to("127.0.0.1", port_, 5, problem);
    EXPECT_GE(socket.get(), 0) << problem;
    return socket;
  }
  /// A channel of a process that has this secret.
  Channel connected(const JobSecret& secret) const {
    return {socket(), kMaxMessageBytes, Handshake(Handshake::End::other, secret)};
  }
  Channel connected() const { return connected(secret_); }
  /// The next message. Null if the other side closed the connection.
  static Json next(Channel& channel) {
    for (int i = 0; i < 2000 && channel.is_open();
         ++i, std::this_thread::sleep_for(std::chrono::milliseconds(5)))
      if (const auto message = channel.receive()) return *message;
    return {};
  }
  const uint16_t port_ = free_port();
  const JobSecret secret_{"the secret of the tests"};
};
}  // namespace optrush::testing
