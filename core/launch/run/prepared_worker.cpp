#include "launch/run/prepared_worker.h"

#include <utility>

#include "base/seconds_since.h"
#include "machine/socket.h"
#include "optrush/error.h"

namespace optrush {
namespace {
constexpr double kLimit = 30;  // seconds to open the GPU
constexpr size_t kLongestLine = 4096;
constexpr std::chrono::milliseconds kPollPeriod{50};
}  // namespace

PreparedWorker::PreparedWorker(ForkServer& workers, Command command, Interrupts& interrupts)
    : command_(std::move(command)), interrupts_(interrupts), listener_(listen_at(folder_ / "prepared")) {
  std::vector<std::string> arguments{workers.worker(), "prepare", "--socket", folder_ / "prepared"};
  arguments.insert(arguments.end(), command_.arguments.begin() + 2, command_.arguments.end());
  process_ = workers.start({.arguments = std::move(arguments),
                            .environment = command_.environment,
                            .log = "/dev/null",
                            .helper = true},
                           interrupts);
}

bool PreparedWorker::wait() try {
  const auto start = std::chrono::steady_clock::now();
  while (!ready_) {
    if (!channel_)
      if (Descriptor next = accept_from(listener_); next.get() >= 0)
        channel_.emplace(std::move(next), kLongestLine);
    ready_ = channel_ && channel_->receive();
    if (ready_) break;
    if (interrupts_.poll() != 0 || seconds_since(start) > kLimit || process_->poll() ||
        (channel_ && !channel_->is_open()))
      return false;
    interrupts_.wait(kPollPeriod, {channel_ ? channel_->descriptor() : listener_.get()});
  }
  return true;
} catch (const Error&) {  // the message is not JSON: it is another worker
  return false;
}

std::unique_ptr<Process> PreparedWorker::run(const Environment& added) {
  if (!wait() || process_->poll()) return nullptr;
  process_->become_run(command_.log);
  Json variables = Json::object();
  for (const auto& [name, value] : added) variables[name] = value;
  channel_->send({{"environment", variables}});
  return std::move(process_);
}
}  // namespace optrush
