#include "launch/signals.h"

namespace optrush {
Interrupts::Interrupts() {
  sigemptyset(&stopping_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction present {};
    sigaction(number, nullptr, &present);
    // nohup and the like have set "ignore", which a held-back signal would lose.
    if (present.sa_handler != SIG_IGN) sigaddset(&stopping_, number);
  }
  awaited_ = stopping_;
  sigaddset(&awaited_, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &awaited_, &before_);
}

Interrupts::~Interrupts() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool Interrupts::wait(std::chrono::milliseconds time) {
  const timespec limit{static_cast<time_t>(time.count() / 1000),
                       static_cast<long>(time.count() % 1000) * 1'000'000};
  const int number = sigtimedwait(&awaited_, nullptr, &limit);
  if (number <= 0 || number == SIGCHLD) return false;
  if (signal_ == 0) signal_ = number;
  return true;
}
}  // namespace optrush
