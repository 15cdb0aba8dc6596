#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "results/stored.h"

namespace optrush {
/// The runs of one variant after the other, and which of them count. Variants and runs have to outlive it.
class VariantRuns {
 public:
  VariantRuns(const std::vector<Variant>&, const std::vector<StoredRun>&);
  /// One more run, in place of the one of the same id.
  void add(const StoredRun&);

  /// By round: the variant's own, or those of the variant whose stack it has.
  const std::vector<const StoredRun*>& of(int64_t variant, Purpose) const;
  /// Its measured ones that count.
  std::vector<const StoredRun*> sound(int64_t variant) const;
  bool sound(const StoredRun& run) const { return run.result.status == Status::ok && flaw(run).empty(); }
  /// Why a run of the status ok can't count; empty: it can.
  const std::string& flaw(const StoredRun&) const;
  /// Why a run does not count, by its status or by its flaw.
  std::string why_not(const StoredRun& run) const {
    return run.result.status == Status::ok ? flaw(run) : run.result.reason;
  }

 private:
  const std::vector<Variant>& variants_;
  std::map<std::pair<int64_t, Purpose>, std::vector<const StoredRun*>> runs_;
  std::map<const StoredRun*, std::string> flaws_;
};
}  // namespace optrush
