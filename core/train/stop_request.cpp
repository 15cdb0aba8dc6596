#include "train/stop_request.h"

#include <ATen/Functions.h>
#include <unistd.h>

namespace optrush {
namespace {
volatile std::sig_atomic_t last_stop_signal = 0;  // NOLINT: all that a handler may write to

void note_stop_signal(int signal) { last_stop_signal = signal; }
}  // namespace

StopRequest::StopRequest() {
  last_stop_signal = 0;
  struct sigaction noting {};
  noting.sa_handler = note_stop_signal;
  noting.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &noting, nullptr);
  }
}

StopRequest::~StopRequest() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int StopRequest::asked(Session& session) const {
  const int signal = last_stop_signal;
  if (session.ranks().size == 1) return signal;
  // The number of ranks that each signal has reached.
  const auto counted = session.groups().bookkeeping();
  const Tensor flags = at::zeros({static_cast<int64_t>(kSignals.size())}, at::kDouble);
  for (size_t i = 0; i < kSignals.size(); ++i)
    if (kSignals[i] == signal) flags[static_cast<int64_t>(i)] = 1;
  session.mesh().group(session.mesh().all()).all_reduce(flags).wait();
  for (size_t i = 0; i < kSignals.size(); ++i)
    if (flags[static_cast<int64_t>(i)].item<double>() > 0) return kSignals[i];
  return 0;
}

void StopRequest::obey(int signal) {
  std::signal(signal, SIG_DFL);
  raise(signal);
  _exit(128 + signal);  // in case the signal is blocked
}
}  // namespace optrush
