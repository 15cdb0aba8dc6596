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
  /// Whether equal calls compute the same loss. If they do not with the event step_end, in which a plugin may
  /// adapt, calls leave it out from here on, and `without_end()` is true.
  bool is_a_function();
  bool without_end() const { return !fires_end_; }
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
  bool fires_end_ = true;
};

/// A call of a Differentiable: copies of the inputs, as leaves that require the same gradients.
struct ObservedCall {
  Differentiable op;
  Tensors inputs;
};
/// For each Differentiable that one step calls, the call with the most inputs that require gradients.
std::vector<ObservedCall> observed_calls(Session&);
}  // namespace optrush
