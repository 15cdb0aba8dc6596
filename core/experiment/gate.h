#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/plan.h"
#include "optrush/edit.h"
#include "optrush/options.h"

namespace optrush {
/// The arithmetic that a whole training step stays in.
enum class Arithmetic : uint8_t { fp64, fp32, reduced };
/// Largest allowed relative difference of two losses at one step; 0: bit-equal.
double tolerance_of(Effect, Arithmetic);
/// The same of two gradient norms, which scatter more: a loss is a mean over all tokens.
double norm_tolerance_of(Effect, Arithmetic);

/// Largest relative differences of two runs at one step; 0: bit-equal.
struct Allowance {
  double loss = 0, norm = 0;
};

/// Steps whose losses are compared one by one; later, means of as many. Equal bits are asked of all steps.
inline constexpr size_t kLossSteps = 24;

/// Fewest steps of which a falling loss is asked.
inline constexpr size_t kStepsForAFall = 12;

/// How one variant's training is checked (docs/internals/verdicts.md). Pure: made from variants
/// and their plans before anything runs, and used again by the report on the stored loss curves.
struct GateCheck {
  int64_t variant = 0;
  Effect effect = Effect::exact;     ///< widest of what the compared runs differ in
  std::optional<RunSpec> subject;    ///< an extra untimed run (purpose "probe") whose losses are compared;
                                     ///< none: the variant's own runs
  std::optional<RunSpec> reference;  ///< an extra plain run (purpose "reference"); none: `reference_variant`
  int64_t reference_variant = -1;    ///< -1 without `reference`: nothing to compare with
  Allowance allowed;                 ///< largest |a - b| / |b| of two steps, of the first ones
  Allowance allowed_if_irreproducible;  ///< the same, where the reference's own rounds are not bit-equal
  std::optional<RunSpec> repeat;  ///< the reference once more (purpose "repeat"): says whether it repeats its
                                  ///< own bits; none where equal bits are not asked for
  bool must_fall = false;         ///< also: the loss has to fall, where there are kStepsForAFall steps
  double overfit = 0;             ///< also: the last loss has to be below this (TrainSpec::overfit); 0: not
  std::string explanation;        ///< one sentence for the report

  bool compares() const { return reference || reference_variant >= 0; }
};

/// `plans[i]` is the plan of variants[i]. A variant without a plan is neither checked nor a reference. The
/// report leaves out the plans of variants that ended badly or broke the gate.
std::vector<GateCheck> plan_gate(const std::vector<Variant>&, const Plans&);
/// The check of one variant that has a plan.
GateCheck plan_check(const std::vector<Variant>&, const Plans&, int64_t variant);

/// The curves of a run's training, by step. NaN: a loss that is not finite, a gradient norm that is not known
/// because the step's update was skipped or another program does not report it.
struct Curve {
  std::vector<double> losses, norms;
};

/// The results of runs that a check needs.
struct GateEvidence {
  std::vector<Curve> own;            ///< the variant's rounds
  std::optional<Curve> subject;      ///< of the probe
  std::vector<Curve> reference;      ///< the reference run, or the reference variant's rounds; empty: it did
                                     ///< not run
  std::optional<Curve> repeat = {};  ///< of the reference
  std::optional<Curve> base = {};    ///< of the base, where it learns from the same batches
};

/// Where two runs are farthest apart.
struct Deviation {
  double worst = 0;      ///< relative
  int64_t at_step = -1;  ///< -1: there was no step to compare
  double tolerance = 0;  ///< that was applied
};

struct GateVerdict {
  bool passed = false, compared = false;
  bool undecided = false;  ///< not bit-equal to a reference that ran once: a repeat of it would decide
  Deviation loss;
  std::optional<Deviation> later;  ///< of the mean of kLossSteps losses, over the reference's first loss;
                                   ///< none: there are no more steps, or all are asked for equal bits
  std::optional<Deviation> norm;   ///< none: no step has a gradient norm on both sides
  std::string message;             ///< why it failed, or what was shown
};
GateVerdict judge(const GateCheck&, const GateEvidence&);
}  // namespace optrush
