#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "results/stored.h"

namespace optrush {
/// The runs of each variant, and whether they count. Variants and runs must outlive it.
class VariantRuns {
 public:
  VariantRuns(const std::vector<Variant>&, const std::vector<StoredRun>&);
  /// Adds a run, or replaces the one with the same id.
  void add(const StoredRun&);

  /// Runs by round: the variant's own, or those of the variant with the same stack.
  const std::vector<const StoredRun*>& of(int64_t variant, Purpose) const;
  /// The measured runs that count.
  std::vector<const StoredRun*> sound(int64_t variant) const;
  /// Those with the seed of round 1. Losses of other seeds differ.
  std::vector<const StoredRun*> of_first_seed(int64_t variant) const;
  bool sound(const StoredRun& run) const { return run.result.status == Status::ok && flaw(run).empty(); }
  /// The reason why a run with status ok does not count; empty: it counts.
  const std::string& flaw(const StoredRun&) const;
  /// The reason why a run does not count: its failure or its flaw.
  std::string why_not(const StoredRun& run) const {
    return run.result.status == Status::ok ? flaw(run) : run.result.reason;
  }

 private:
  const std::vector<Variant>& variants_;
  std::map<std::pair<int64_t, Purpose>, std::vector<const StoredRun*>> runs_;
  std::map<const StoredRun*, std::string> flaws_;
};
}  // namespace optrush
