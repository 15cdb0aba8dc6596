#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "launch/run/channel.h"

namespace optrush {
/// The controller's socket for the turns of a run, with one connection per rank (docs/guides/running.md).
class InterleavingSocket {
 public:
  /// Listens at this path, which processes get as OPTRUSH_TURNS.
  explicit InterleavingSocket(const std::filesystem::path&);

  /// Reads new messages. Throws an Error for an invalid one.
  void poll();
  /// Whether every rank waits for its next turn.
  bool waits() const;
  /// Whether any rank has waited: the program supports turns.
  bool spoke() const { return size_ > 0; }
  /// Gives every rank a turn of `steps` steps. `alone`: no other run is interleaved with it.
  void go(int64_t steps, bool alone = false);
  /// Whether every rank supports an end before its last step.
  bool can_end() const;
  /// Ends the run, if it supports that, with the result of the steps that it has made.
  void end();
  /// Seconds of the last step on the slowest rank; 0: not known.
  double step_seconds() const;
  /// They become readable when a rank has sent a message.
  std::vector<int> descriptors() const;

 private:
  struct Connection {
    Channel channel;
    int64_t rank = -1;  ///< -1: no message yet
    bool waits = false, can_end = false;
    double seconds = 0;
  };
  void handle(Connection&, const Json& message);
  void send(const Json& message);

  Descriptor listener_;
  std::vector<Connection> connections_;
  int64_t size_ = 0;  ///< number of ranks, from the first message; 0: none yet
};
}  // namespace optrush
