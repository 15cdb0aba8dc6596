#pragma once
#include <array>
#include <csignal>

#include "train/session.h"

namespace optrush {
/// While it lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 do not end this process; they request a stop at the
/// end of a step. Signals that the parent ignores stay ignored.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// The signal that any rank of the run has received; 0 if none. All ranks call it between the same two
  /// steps and get the same answer, because their hosts add up the requests.
  int asked(Session&) const;
  /// Ends this process by the signal, as without this object.
  [[noreturn]] static void obey(int signal);

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  std::array<struct sigaction, kSignals.size()> before_{};
};
}  // namespace optrush
