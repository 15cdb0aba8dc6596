#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/analysis.h"
#include "analysis/variant_runs.h"

namespace optrush {
/// Computes the row of a variant from its runs: medians over rounds, and values that follow from them. The
/// gate and the comparison with other rows come later.
Row measured_row(const Stored&, const Variant&, const VariantRuns&);

/// The hardware of a run, in units of the hardware whose peak was measured. Each GPU is one unit. On a CPU it
/// is the number of threads of all ranks divided by the threads of the measurement, limited by the cores.
/// `ranks`: number of ranks that train.
double hardware_used(const Json& context, const RunResult&, int64_t ranks);

/// Reads "costs" of a result or a plan; none if null or missing. Ignores unknown keys.
std::optional<StepCost> step_cost_from(const Json& costs);

/// The rows of a report in the order of its variants, each measured and then checked by the gate. A check
/// reads only earlier rows, so a row can be updated after more runs without the others.
class CheckedRows {
 public:
  /// `stored` must outlive it.
  explicit CheckedRows(const Stored& stored) : stored_(stored), usable_(stored.plans) {}

  /// Computes the row of the variant after the last one, or that of the last one again.
  const Row& update(const Variant&, const VariantRuns&);
  /// Plans by variant; none for an earlier row that may not be a reference.
  const Plans& usable() const { return usable_; }
  std::vector<Row> release() && { return std::move(rows_); }

 private:
  void check(Row&, const VariantRuns&);
  void copy_check(Row&, const Row& owner);
  void mark_above_broken(Row&);
  void check_tokens(Row&) const;
  bool same_batches(int64_t variant) const;
  std::optional<Curve> extra_run(int64_t variant, const RunSpec&, const VariantRuns&, Row&) const;

  const Stored& stored_;
  Plans usable_;
  std::vector<Row> rows_;
  /// By broken variant: the plugins that broke it or a rung below.
  std::map<int64_t, std::vector<PluginUse>> culprits_;
};

/// All rows.
std::vector<Row> checked_rows(const Stored&, const VariantRuns&);
}  // namespace optrush
