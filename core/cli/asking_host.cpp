#include "cli/asking_host.h"

#include <algorithm>

#include "base/cores.h"
#include "base/files.h"
#include "cli/interrupted.h"
#include "launch/launcher.h"
#include "launch/planner.h"
#include "launch/process.h"
#include "launch/temporary_folder.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr Limits kLimits{.timeout_s = 60};
}  // namespace

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
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "gpus.json";
  Interrupts interrupts;
  run_process({{worker_, "gpus", "--out", out}, {}, folder.path() / "log.txt"}, kLimits, interrupts);
  if (interrupts.signal() != 0) throw Interrupted(interrupts.signal(), "nothing was run");
  return fs::exists(out) ? read_json(out) : Json::array();
}

std::optional<int64_t> AskingHost::predicted_peak(const RunSpec& spec) {
  Interrupts interrupts;
  const auto peak = optrush::predicted_peak(spec, worker_, kLimits, interrupts, as_gpu_);
  if (interrupts.signal() != 0) throw Interrupted(interrupts.signal(), "nothing was run");
  return peak;
}
}  // namespace optrush
