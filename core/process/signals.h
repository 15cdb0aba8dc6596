#pragma once
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace optrush {
/// Whether a signal asks a whole job to stop: SIGINT, SIGTERM, SIGHUP, and SIGUSR1, which launchers send
/// before a time limit.
bool asks_to_stop(int signal);

/// Ctrl-C and its kin as values. While an object lives, the signals that ask to stop are held back and seen
/// by wait() and take() alone, so no run is cut off at a bad place and no handler needs global state.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Sleeps until a child ends, a signal comes or the time is over. True where a signal to stop came during
  /// this call: the first one, or one that insists. A launcher may send one signal twice, so what comes
  /// within two seconds of the first is the first.
  bool wait(std::chrono::milliseconds);
  /// Also until one of these can be read.
  bool wait(std::chrono::milliseconds, const std::vector<int>& descriptors);
  /// Takes signals that have come, without waiting. A process asks this before it judges how something else
  /// has ended: one signal to a whole job ends others, and their ends may be seen before the signal is.
  void take();
  /// Another process of the job was asked to stop, so this one stops as well. `who` is reported with the
  /// signal.
  void hear(int signal, const std::string& who);
  /// The first signal that asked to stop; 0: none so far.
  int signal() const { return signal_; }
  /// "SIGTERM (terminated)", and the process that received it if that was another one.
  std::string describe() const;

 private:
  bool note(int signal);

  sigset_t stopping_{}, awaited_{}, before_{};
  Descriptor arrivals_;  ///< can be read when one of `awaited_` has come
  int signal_ = 0;
  std::string heard_by_;  ///< "": this process
  std::chrono::steady_clock::time_point first_;
};

/// From here on this process only ends: signals that ask to stop no longer change how.
void hold_signals_until_exit();
}  // namespace optrush
