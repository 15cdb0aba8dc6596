#include "cli/asking_host.h"

#include <algorithm>

#include "base/files.h"
#include "cli/interrupted.h"
#include "launch/ranks/launcher.h"
#include "launch/schedule/planner.h"
#include "machine/cores.h"
#include "process/process.h"
#include "process/temporary_folder.h"
#include "process/terminal.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr Limits kLimits{.timeout_s = 60};
}  // namespace

AskingHost::AskingHost(const RunRequest& request, const std::string& label)
    : worker_(request.worker),
      as_gpu_(request.as_gpu),
      trials_(request, label),
      model_tokens_([](const std::string& line) { Terminal::of(2).write("optrush: " + line + "\n"); }) {}

MemoryTrial AskingHost::with_tokens(MemoryTrial trial) {
  trial.spec = model_tokens_.of(std::move(trial.spec), "");
  return trial;
}

Json AskingHost::gpu() {
  const Json found = gpus();
  return found.empty() ? Json() : found.front();
}

int64_t AskingHost::ranks(bool on_gpus) {
  if (const auto here = launched()) return here->size;
  return on_gpus ? std::max<int64_t>(1, static_cast<int64_t>(gpus().size())) : usable_cores();
}

Json AskingHost::gpus() const {
  if (as_gpu_)
    return {{{"name", as_gpu_->name}, {"memory_bytes", as_gpu_->memory_bytes}, {"sm", as_gpu_->sm}}};
  const Json found = ask_worker("gpus");
  return found.is_null() ? Json::array() : found;
}

Json AskingHost::cpu() {
  const Json found = ask_worker("cpu");
  return found.is_null() ? ScriptHost::cpu() : found;
}

Json AskingHost::ask_worker(const std::string& what) const {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "answer.json";
  Interrupts interrupts;
  run_process({{worker_, what, "--out", out}, {}, folder.path() / "log.txt"}, kLimits, interrupts);
  if (interrupts.signal() != 0) throw Interrupted(interrupts.signal(), "nothing was run");
  return fs::exists(out) ? read_json(out) : Json();
}

std::optional<int64_t> AskingHost::predicted_peak(const RunSpec& spec) {
  Interrupts interrupts;
  const auto peak = optrush::predicted_peak(spec, worker_, kLimits, interrupts, as_gpu_);
  if (interrupts.signal() != 0) throw Interrupted(interrupts.signal(), "nothing was run");
  return peak;
}
}  // namespace optrush
