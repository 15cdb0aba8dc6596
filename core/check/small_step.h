#pragma once
#include <memory>
#include <vector>

#include "measure/step_clock.h"
#include "optrush/differentiable.h"
#include "train/session.h"

namespace optrush {
/// The first step of a run as a function of its parameters: same batch, random numbers and events in every
/// call.
class SmallStep {
 public:
  explicit SmallStep(Session&);

  /// The loss of the step, computed by training's forward.
  double loss();
  /// The trained elements of a parameter as the optimizer sees them (flat), and their gradient without the
  /// loss scale; undefined if there is none.
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

/// A call of a Differentiable: copies of the inputs, as leaves that require the same gradients.
struct ObservedCall {
  const Differentiable* op = nullptr;
  Tensors inputs;
};
/// For each Differentiable that one step calls, the call with the most inputs that require gradients.
std::vector<ObservedCall> observed_calls(Session&);
}  // namespace optrush
