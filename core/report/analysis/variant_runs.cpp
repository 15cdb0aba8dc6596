#include "report/analysis/variant_runs.h"

#include <algorithm>

#include "report/analysis/quality.h"

namespace optrush {
std::vector<const StoredRun*> VariantRuns::of(int64_t variant, Purpose purpose) const {
  const int64_t owner = stored_.variants[static_cast<size_t>(variant)].runs_of();
  std::vector<const StoredRun*> runs;
  for (const auto& run : stored_.runs)
    if (run.spec.variant == owner && run.spec.purpose == purpose) runs.push_back(&run);
  std::ranges::stable_sort(runs, {}, [](const StoredRun* run) { return run->spec.round; });
  return runs;
}

std::vector<const StoredRun*> VariantRuns::sound(int64_t variant) const {
  auto runs = of(variant, Purpose::measure);
  std::erase_if(runs, [&](const StoredRun* run) { return !sound(*run); });
  return runs;
}

std::string VariantRuns::flaw(const StoredRun& run) const {
  // What the gate compares an external rung with is made by the worker.
  const bool by_worker = !stored_.variants[static_cast<size_t>(run.spec.variant)].external ||
                         run.spec.purpose == Purpose::reference || run.spec.purpose == Purpose::repeat;
  return unhealthy(run.result, by_worker ? TrainedBy::worker : TrainedBy::other_program);
}
}  // namespace optrush
