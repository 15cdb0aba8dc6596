#pragma once
#include <functional>

#include "optrush/differentiable.h"

namespace optrush {
/// Sees the calls of pairs (`call`) on one thread while it lives, with the inputs as the two halves get them:
/// what a plugin computes by pairs is found by running it, not declared. Calls under a tracer are not seen.
class CallObserver {
 public:
  using See = std::function<void(const Differentiable&, const Tensors& inputs)>;
  explicit CallObserver(See see);
  ~CallObserver();
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;

 private:
  friend Tensors call(const Differentiable&, Tensors);
  See see_;
  CallObserver* outer_;
};
}  // namespace optrush
