#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "optrush/phase.h"

namespace optrush {
/// How one variant's training is checked (docs/architecture.md, "Correctness gate"). Pure: made from variants and
/// their plans before anything runs, and used again by the report on the stored loss curves.
struct GateCheck {
  int64_t variant = 0;
  Effect effect = Effect::exact;           ///< widest of what changed since the reference
  std::optional<RunSpec> subject;          ///< an extra untimed run (purpose "probe") whose losses are compared;
                                           ///< none: the variant's own run of round 0
  std::optional<RunSpec> reference;        ///< an extra plain run (purpose "reference"); none: `reference_variant`
  int64_t reference_variant = -1;
  bool must_fall = false;                  ///< also: the loss has to fall
  std::string explanation;                 ///< one sentence for the report
};

/// `plans[i]` is the plan of variants[i] (`worker --plan`), null where it failed.
std::vector<GateCheck> plan_gate(const std::vector<Variant>&, const std::vector<Json>& plans);

/// Largest allowed difference of two loss curves. Every tolerance of the project stands in gate.cpp, in one table.
struct Tolerance {
  double relative;  ///< |a - b| / |b| at each step; 0: bit-equal
};
Tolerance tolerance_of(Effect, const std::string& dtype);

struct GateVerdict {
  bool passed = false, compared = false;
  double worst = 0;      ///< largest relative difference
  int64_t at_step = -1;  ///< where
  std::string message;
};
GateVerdict judge(const GateCheck&, const std::vector<double>& losses, const std::vector<double>& reference_losses,
                  const std::string& dtype);
}  // namespace optrush
