#pragma once
#include <ATen/core/grad_mode.h>

namespace optrush {
/// During its lifetime, forwards of this thread only compute a loss (optrush/scopes.h).
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
