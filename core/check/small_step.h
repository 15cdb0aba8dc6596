#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "check/opening.h"
#include "measure/step_clock.h"
#include "optrush/differentiable.h"
#include "train/train_step.h"

namespace optrush {
/// The first step of an opened run as a function of its parameters: the same batch, the same random numbers
/// and the same events at every call.
class SmallStep {
 public:
  explicit SmallStep(Session&);

  /// Loss of the step by the forward that training runs, with its graph dropped.
  double loss();
  /// The trained elements of a parameter, flat, as for the optimizer, and the gradient of the loss by them, a
  /// loss scale taken off; undefined where there is none.
  struct Trained {
    Param* param;
    Tensor value, gradient;
  };
  std::vector<Trained> gradients();

 private:
  Session& run_;
  std::unique_ptr<StepClock> clock_;
  std::vector<Batch> batches_;
};

/// A call of a pair as a plugin made it: the inputs as they were, as leaves that need the same gradients.
struct ObservedCall {
  const Differentiable* op = nullptr;
  Tensors inputs;
};
/// No plugin of the stack has the effect `precision`.
bool keeps_its_bits(const CheckCase&);
/// Of each pair that one step of the run calls, the call with the most inputs that need gradients.
std::vector<ObservedCall> observed_calls(Session&);
}  // namespace optrush
