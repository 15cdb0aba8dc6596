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

/// Receives the signals that ask to stop, such as Ctrl-C. While an object lives, these signals are blocked,
/// and only wait() and poll() receive them. So no run is interrupted at an arbitrary place, and no signal
/// handler needs global state.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Sleeps until a child ends, a signal arrives, one of the descriptors can be read or the time is over.
  /// Returns true if a signal to stop arrived during this call: the first one, or a later one. A launcher may
  /// send one signal twice, so a signal within two seconds of the first counts as the first.
  bool wait(std::chrono::milliseconds, const std::vector<int>& descriptors = {});
  /// Receives signals that have arrived, without waiting, and returns signal(). To be called before the end
  /// of another process is judged: a signal to a whole job ends other processes, and their ends may be
  /// noticed before the signal.
  int poll();
  /// Another process of the job was asked to stop, so this one also stops. `who` is reported with the signal.
  void forward(int signal, const std::string& who);
  /// The first signal that asked to stop; 0: none so far.
  int signal() const { return signal_; }
  /// "SIGTERM (terminated)", and the process that received it if that was another one.
  std::string describe() const;

 private:
  bool note(int signal);

  sigset_t stopping_{}, awaited_{}, before_{};
  Descriptor arrivals_;  ///< can be read when one of `awaited_` has arrived
  int signal_ = 0;
  std::string forwarded_by_;  ///< "": this process
  std::chrono::steady_clock::time_point first_;
};

/// How often the state of a process is looked at if no signal reports its end.
inline constexpr std::chrono::milliseconds kTick{250};
/// A tick, or the time until a limit if that is shorter.
std::chrono::milliseconds tick_within(double seconds_left);

/// To be called when this process is about to end. Blocks signals that ask to stop, so that they do not
/// change its end.
void hold_signals_until_exit();
}  // namespace optrush
