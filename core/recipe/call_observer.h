#pragma once
#include <functional>

#include "optrush/differentiable.h"

namespace optrush {
/// While it lives, it is called for each `call` of a Differentiable on this thread, with the inputs of the
/// forward. A check uses it to find the Differentiables of a plugin. Calls under a tracer are not reported.
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
