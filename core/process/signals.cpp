#include "process/signals.h"

#include <poll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>

#include "base/seconds_since.h"
#include "process/process.h"

namespace optrush {
namespace {
constexpr std::array kStopping = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
constexpr double kOneSignal = 2;  // seconds within which a signal is sent twice
}  // namespace

bool asks_to_stop(int signal) { return std::ranges::find(kStopping, signal) != kStopping.end(); }

std::chrono::milliseconds tick_within(double seconds_left) {
  return std::min(kTick, std::chrono::milliseconds(static_cast<int64_t>(seconds_left * 1000) + 1));
}

void hold_signals_until_exit() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kStopping) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Interrupts::Interrupts() {
  // Some parents ignore it, and then the ends of child processes would not be reported.
  std::signal(SIGCHLD, SIG_DFL);
  // The reader of the progress may end before the measurement.
  std::signal(SIGPIPE, SIG_IGN);
  sigemptyset(&stopping_);
  for (const int number : kStopping) {
    struct sigaction present {};
    sigaction(number, nullptr, &present);
    // A program such as nohup has set "ignore", which blocking the signal would override.
    if (present.sa_handler != SIG_IGN) sigaddset(&stopping_, number);
  }
  awaited_ = stopping_;
  sigaddset(&awaited_, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &awaited_, &before_);
  arrivals_ = Descriptor(signalfd(-1, &awaited_, SFD_CLOEXEC | SFD_NONBLOCK));
}

Interrupts::~Interrupts() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int Interrupts::poll() {
  const timespec now{};
  for (int number = 0; (number = sigtimedwait(&stopping_, nullptr, &now)) > 0;) note(number);
  return signal_;
}

void Interrupts::forward(int signal, const std::string& who) {
  if (signal_ != 0) return;
  note(signal);
  forwarded_by_ = who;
}

bool Interrupts::note(int signal) {
  if (signal_ != 0) return seconds_since(first_) > kOneSignal;
  signal_ = signal;
  first_ = std::chrono::steady_clock::now();
  return true;
}

std::string Interrupts::describe() const {
  return describe_signal(signal_) + (forwarded_by_.empty() ? "" : ", which " + forwarded_by_ + " was sent");
}

bool Interrupts::wait(std::chrono::milliseconds time, const std::vector<int>& descriptors) {
  std::vector<pollfd> wanted{{.fd = arrivals_.get(), .events = POLLIN, .revents = 0}};
  for (const int descriptor : descriptors)
    wanted.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  ::poll(wanted.data(), wanted.size(), static_cast<int>(time.count()));
  if (wanted.front().revents == 0) return false;
  // The descriptor only shows that a signal is pending.
  const timespec now{};
  const int number = sigtimedwait(&awaited_, nullptr, &now);
  return number > 0 && number != SIGCHLD && note(number);
}
}  // namespace optrush
