#pragma once
#include <chrono>
#include <csignal>
#include <vector>

#include "base/descriptor.h"

namespace optrush {
/// Ctrl-C and its kin as values. While an object lives, SIGINT, SIGTERM and SIGHUP are held back and seen by
/// wait() alone, so no run is cut off at a bad place and no handler needs global state.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Sleeps until a child ends, a signal comes or the time is over. True where a signal to stop came during
  /// this call.
  bool wait(std::chrono::milliseconds);
  /// Also until one of these can be read.
  bool wait(std::chrono::milliseconds, const std::vector<int>& descriptors);
  /// The first signal that asked to stop; 0: none so far.
  int signal() const { return signal_; }

 private:
  sigset_t stopping_{}, awaited_{}, before_{};
  Descriptor arrivals_;  ///< can be read when one of `awaited_` has come
  int signal_ = 0;
};
}  // namespace optrush
