#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/run/channel.h"

namespace optrush {
/// The controller's end of the turns of one run: a socket that its processes connect to, one connection for
/// each rank (docs/guides/running.md).
class InterleavingSocket {
 public:
  /// Listens at this path, which its processes get as OPTRUSH_TURNS.
  explicit InterleavingSocket(const std::filesystem::path&);

  /// Takes what was said since. An Error where it makes no sense.
  void poll();
  /// Whether every rank has handed its turn on, and waits for the next one.
  bool waits() const;
  /// Whether one has ever done so: the program knows of turns.
  bool spoke() const { return size_ > 0; }
  /// The turn, for so many steps, to every rank. `alone`: no other run is interleaved with it.
  void go(int64_t steps, bool alone = false);
  /// Whether every rank knows how to end before its last step.
  bool can_end() const;
  /// Where it can: no more steps. Every rank ends with the result of those that it has made.
  void end();
  /// Of the last step, by the slowest rank; 0: not known.
  double step_seconds() const;
  /// The descriptor that becomes readable when a rank has sent a message.
  std::vector<int> descriptors() const;

 private:
  struct Connection {
    Channel channel;
    int64_t rank = -1;  ///< -1: it has said nothing yet
    bool waits = false, can_end = false;
    double seconds = 0;
  };
  void take(Connection&, const Json& message);
  void tell(const Json& message);

  Descriptor listener_;
  std::vector<Connection> connections_;
  int64_t size_ = 0;  ///< ranks of the run, as the first of them has said; 0: none has yet
};
}  // namespace optrush
