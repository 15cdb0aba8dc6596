#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "results/stored.h"

namespace optrush {
/// The runs of one variant after the other, and which of them count. The report has to outlive it.
class VariantRuns {
 public:
  explicit VariantRuns(const Stored& stored) : stored_(stored) {}

  /// By round: the variant's own, or those of the variant whose stack it has.
  std::vector<const StoredRun*> of(int64_t variant, Purpose) const;
  /// Its measured ones that count.
  std::vector<const StoredRun*> sound(int64_t variant) const;
  bool sound(const StoredRun& run) const { return run.result.status == Status::ok && flaw(run).empty(); }
  /// Why a run of the status ok can't count; empty: it can.
  std::string flaw(const StoredRun&) const;
  /// Why a run does not count, by its status or by its flaw.
  std::string why_not(const StoredRun& run) const {
    return run.result.status == Status::ok ? flaw(run) : run.result.reason;
  }

 private:
  const Stored& stored_;
};
}  // namespace optrush
