#pragma once
#include <ATen/core/grad_mode.h>

namespace optrush {
/// While it lives, forwards of this thread compute only a loss (optrush/scopes.h).
class EvaluationScope {
 public:
  EvaluationScope();
  ~EvaluationScope();
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;

 private:
  at::NoGradGuard no_grad_;
  bool outer_;
};
}  // namespace optrush
