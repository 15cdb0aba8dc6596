#include "analysis/variant_runs.h"

#include <algorithm>

namespace optrush {
namespace {
std::string flaw_of(const StoredRun& run, const Variant& variant) {
  const bool by_program = is_made_by_program(variant, run.spec);
  return unhealthy(run.result, by_program ? TrainedBy::other_program : TrainedBy::worker);
}
}  // namespace

VariantRuns::VariantRuns(const std::vector<Variant>& variants, const std::vector<StoredRun>& runs)
    : variants_(variants) {
  for (const StoredRun& run : runs) add(run);
}

void VariantRuns::add(const StoredRun& run) {
  auto& list = runs_[{run.spec.variant, run.spec.purpose}];
  std::erase_if(list, [&](const StoredRun* other) { return other->id == run.id; });
  list.insert(std::ranges::upper_bound(list, run.spec.round, {},
                                       [](const StoredRun* other) { return other->spec.round; }),
              &run);
  if (auto flaw = flaw_of(run, variants_[static_cast<size_t>(run.spec.variant)]); !flaw.empty())
    flaws_.emplace(&run, std::move(flaw));
}

const std::vector<const StoredRun*>& VariantRuns::of(int64_t variant, Purpose purpose) const {
  static const std::vector<const StoredRun*> kNone;
  const auto found = runs_.find({variants_[static_cast<size_t>(variant)].runs_of(), purpose});
  return found == runs_.end() ? kNone : found->second;
}

std::vector<const StoredRun*> VariantRuns::sound(int64_t variant) const {
  auto runs = of(variant, Purpose::measure);
  std::erase_if(runs, [&](const StoredRun* run) { return !sound(*run); });
  return runs;
}

std::vector<const StoredRun*> VariantRuns::of_first_seed(int64_t variant) const {
  auto runs = sound(variant);
  const auto seed = variants_[static_cast<size_t>(variant)].spec.train.seed;
  std::erase_if(runs, [&](const StoredRun* run) { return run->spec.train.seed != seed; });
  return runs;
}

const std::string& VariantRuns::flaw(const StoredRun& run) const {
  static const std::string kNone;
  const auto found = flaws_.find(&run);
  return found == flaws_.end() ? kNone : found->second;
}
}  // namespace optrush
