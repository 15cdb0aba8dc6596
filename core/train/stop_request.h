#pragma once
#include <array>
#include <csignal>

#include "train/session.h"

namespace optrush {
/// While an object lives, SIGTERM and its kin ask this process to stop at the end of a step and do not end
/// it. What the parent ignores stays ignored.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// The signal that asked any rank of the run to stop; 0: none did. All ranks call it between the same two
  /// steps and have the same answer, by a sum among their hosts.
  int asked(Session&) const;
  /// Ends this process by the signal, as it would have ended without the object.
  [[noreturn]] static void obey(int signal);

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  std::array<struct sigaction, kSignals.size()> before_{};
};
}  // namespace optrush
