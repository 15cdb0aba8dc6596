#pragma once
#include <map>
#include <string>
#include <vector>

#include "optrush/tensor.h"
#include "plugin_check/opening.h"

namespace optrush {
/// Curves and gradients of a few training steps.
struct TrainingCurve {
  std::vector<double> losses, norms;  ///< by step; the norm of a skipped step is NaN
  /// Gradients of the first step as the optimizer gets them, in fp64 on the host.
  std::map<std::string, Tensor> gradients;
};

/// Compares stacks with their plain form. Plain forms are trained once and kept.
class StackCheck {
 public:
  explicit StackCheck(const CheckContext& context) : context_(context) {}

  /// Trains the stack of the case and its plain form, which has the same sequences per step and only those
  /// plugins that change the model. If all plugins do, the reference is the same stack in fp64. Compares
  /// losses, gradient norms and the first gradients with the tolerance of the widest effect. Throws an Error
  /// if they differ too much. Returns the worst differences. Throws Refused and Skip like open_case().
  std::string run(const CheckCase&);

  /// The same for a stack of plugins for several ranks, which trains on two ranks of the CPU: its losses and
  /// gradient norms equal those of one process with the same sequences per step.
  std::string run_on_two_ranks(const CheckCase&);

  /// The runs to compare, and the effect that decides the tolerance.
  struct Comparison {
    RunSpec subject, plain;
    Effect effect = Effect::exact;
  };

 private:
  struct Reference {
    TrainingCurve curve;
    int64_t sequences = 0;     ///< sequences per step
    bool reproducible = true;  ///< a second run gives the same bits
    bool draws = false;        ///< a step draws random numbers
  };
  const Reference& reference(const RunSpec&);
  const Reference& in_double(const RunSpec&);
  /// The plain form with the micro-batches of a subject that accumulates; null if it has them anyway.
  const Reference* in_equal_micro_batches(const Comparison&, int64_t accumulation);

  const CheckContext& context_;
  std::map<std::string, Reference> references_;
};
}  // namespace optrush
