#include "launch/signals.h"

#include <poll.h>
#include <sys/signalfd.h>

#include <csignal>

namespace optrush {
Interrupts::Interrupts() {
  // Some parents ignore it, and the ends of our children would then never be told.
  std::signal(SIGCHLD, SIG_DFL);
  // Who reads the progress may end before the measurement does.
  std::signal(SIGPIPE, SIG_IGN);
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
  arrivals_ = Descriptor(signalfd(-1, &awaited_, SFD_CLOEXEC | SFD_NONBLOCK));
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

bool Interrupts::wait(std::chrono::milliseconds time, const std::vector<int>& descriptors) {
  std::vector<pollfd> wanted{{.fd = arrivals_.get(), .events = POLLIN, .revents = 0}};
  for (const int descriptor : descriptors)
    wanted.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  poll(wanted.data(), wanted.size(), static_cast<int>(time.count()));
  // The descriptor only tells that one is there: a signal is taken in one place.
  return wanted.front().revents != 0 && wait(std::chrono::milliseconds(0));
}
}  // namespace optrush
