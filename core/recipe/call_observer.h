#pragma once
#include <functional>

#include "optrush/differentiable.h"

namespace optrush {
/// While it lives, it is told of each `call` of a Differentiable on this thread, with the inputs that its
/// forward gets. A check finds out in this way which Differentiables a plugin uses. Calls under a tracer are
/// not reported.
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
