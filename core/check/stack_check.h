#pragma once
#include <map>
#include <string>
#include <vector>

#include "check/cases.h"
#include "optrush/tensor.h"

namespace optrush {
/// Curves of a few training steps.
struct TrainingCurve {
  std::vector<double> losses, norms;  ///< by step; a norm is NaN where the step was skipped
  std::map<std::string, Tensor>
      gradients;  ///< of the first step, as the optimizer gets them: fp64, on the host
};

/// Holds stacks against their plain form. Plain forms are trained once and kept.
class StackCheck {
 public:
  explicit StackCheck(at::Device device) : device_(device) {}

  /// Trains the stack of the case and its plain form, which has the same sequences a step and of the stack
  /// only the plugins that change the model; where that is all of the stack, the same in double. Compares
  /// losses, gradient norms and the first gradients by the widest effect; an Error says where they differ
  /// too much. Returns the worst differences. Refused and Skip as opening has them.
  std::string run(const CheckCase&);

  /// Which runs are compared, and by what.
  struct Comparison {
    RunSpec subject, plain;
    Effect effect = Effect::exact;
  };

 private:
  struct Reference {
    TrainingCurve curve;
    int64_t sequences = 0;     ///< of a step
    bool reproducible = true;  ///< a second run of it has the same bits
    bool draws = false;        ///< random numbers, in a step
  };
  const Reference& reference(const RunSpec&);
  const Reference& in_double(const RunSpec&);
  /// The plain form in the micro-batches of a subject that accumulates; null where it does so anyway.
  const Reference* in_equal_micro_batches(const Comparison&, int64_t accumulation);

  at::Device device_;
  std::map<std::string, Reference> references_;
};
}  // namespace optrush
