#include "train/run_log.h"

#include <ATen/record_function.h>

#include <chrono>

#include "base/contains.h"

namespace optrush {
namespace {
void add_once(std::vector<std::string>& list, const std::string& text) {
  if (!contains(list, text)) list.push_back(text);
}
}  // namespace

void RunLog::note(const std::string& text) { add_once(notes_, text); }
void RunLog::warn(const std::string& text) { add_once(warnings_, text); }

void RunLog::enter_phase(const std::string& name) {
  phase_ = name;
  progress_(name);
}

std::shared_ptr<void> RunLog::compiling(const std::string& what) {
  struct Compiling {
    RunLog& log;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    at::DisableRecordFunctionGuard uncounted;
    explicit Compiling(RunLog& log) : log(log) {}
    Compiling(const Compiling&) = delete;
    Compiling& operator=(const Compiling&) = delete;
    ~Compiling() {
      log.compile_seconds_ += seconds_since(start);
      log.progress_(log.phase_);
    }
  };
  progress_("compiling " + what);
  return std::make_shared<Compiling>(*this);
}
}  // namespace optrush
