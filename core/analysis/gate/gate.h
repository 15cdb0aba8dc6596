#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/plan.h"
#include "optrush/edit.h"
#include "optrush/options.h"
#include "results/run_result.h"

namespace optrush {
/// The arithmetic of a whole training step.
enum class Arithmetic : uint8_t { fp64, fp32, reduced };

/// The largest allowed relative differences of two runs in one step; 0: equal bits. Gradient norms scatter
/// more, because a loss is a mean over all tokens.
struct Allowance {
  double loss = 0, norm = 0;
};
Allowance allowance_of(Effect, Arithmetic);

/// Number of steps whose losses are compared individually; later, means of as many steps are compared. Equal
/// bits are required in all steps.
inline constexpr size_t kLossSteps = 24;

/// The smallest number of steps for which a falling loss is required.
inline constexpr size_t kStepsForAFall = 12;

/// How the training of a variant is checked (docs/internals/verdicts.md). It is computed from variants and
/// their plans before anything runs. The report applies it to the stored loss curves.
struct GateCheck {
  int64_t variant = 0;
  Effect effect = Effect::exact;  ///< widest effect in which the compared runs differ
  /// An additional untimed run (purpose "probe") whose losses are compared; none: the variant's own runs.
  std::optional<RunSpec> subject;
  /// An additional plain run (purpose "reference"); none: `reference_variant`.
  std::optional<RunSpec> reference;
  int64_t reference_variant = -1;       ///< -1 and no `reference`: there is nothing to compare with
  Allowance allowed;                    ///< largest |a - b| / |b| of the first steps
  Allowance allowed_if_irreproducible;  ///< the same if the reference's rounds are not bit-equal
  /// A second run of the reference (purpose "repeat"), which shows whether it repeats its bits; none if equal
  /// bits are not required.
  std::optional<RunSpec> repeat;
  bool must_fall = false;   ///< also requires a falling loss, if there are kStepsForAFall steps
  double overfit = 0;       ///< also requires that the last loss is below this (TrainSpec::overfit); 0: not
  std::string explanation;  ///< a sentence for the report

  bool compares() const { return reference || reference_variant >= 0; }
};

/// The check of one variant, which must have a plan. `plans[i]` is the plan of variants[i]. A variant without
/// a plan is no reference. The report leaves out the plans of variants that failed or broke the gate.
GateCheck plan_check(const std::vector<Variant>&, const Plans&, int64_t variant);

/// The curves that a check needs.
struct GateEvidence {
  std::vector<Curve> own;        ///< the rounds of the variant
  std::optional<Curve> subject;  ///< the probe
  /// The reference run, or the rounds of the reference variant; empty: it did not run.
  std::vector<Curve> reference;
  std::optional<Curve> repeat = {};  ///< the second run of the reference
  std::optional<Curve> base = {};    ///< the base, if it trains on the same batches
};

/// The largest difference of two runs.
struct Deviation {
  double worst = 0;      ///< relative difference
  int64_t at_step = -1;  ///< -1: no step was compared
  double tolerance = 0;  ///< the applied tolerance
};

struct GateVerdict {
  bool passed = false, compared = false;
  bool undecided = false;  ///< not bit-equal to a reference that ran once; a second run of it would decide
  Deviation loss;
  /// Of the mean of kLossSteps losses, relative to the reference's first loss; none: there are no more steps,
  /// or equal bits are required of all.
  std::optional<Deviation> later;
  std::optional<Deviation> norm;  ///< none: no step has a gradient norm in both runs
  std::string message;            ///< why the check failed, or what it showed
};
GateVerdict judge(const GateCheck&, const GateEvidence&);
}  // namespace optrush
