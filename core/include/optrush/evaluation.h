#pragma once
#include <ATen/core/grad_mode.h>

namespace optrush {
/// Whether this thread's forward only tells what a model makes of data: without gradients, and nothing trains
/// on it. What is noise on purpose (dropout) or learns from activations asks at each call, and rests.
bool evaluating();
/// Whether it is, besides, that of the model as it is without what plugins train beside it: an adapter asks
/// at each call, and rests.
bool of_reference();

/// While it lives, forwards of this thread are of the reference. Preferences are learned against it.
class ReferenceScope {
 public:
  ReferenceScope();
  ~ReferenceScope();
  ReferenceScope(const ReferenceScope&) = delete;
  ReferenceScope& operator=(const ReferenceScope&) = delete;

 private:
  at::NoGradGuard no_grad_;
  bool outer_evaluates_, outer_refers_;
};
}  // namespace optrush
