#pragma once
#include <ATen/core/grad_mode.h>

#include "optrush/random_state.h"
#include "optrush/scopes.h"

namespace optrush {
/// What a forward needs to run once more in the backward as it ran at first: its scopes, and where the
/// generator stood. Made where the forward is about to begin.
class Recomputation {
 public:
  Recomputation(const Scopes& scopes, at::Device device) : scopes_(scopes), random_(device) {}

  /// The forward itself.
  template <class Forward>
  auto first(Forward&& forward) {
    auto out = forward();
    random_.forget_if_unused();
    return out;
  }
  /// The forward again, with gradients: on the thread of the backward, which has no scope and may have drawn
  /// numbers since.
  template <class Forward>
  auto again(Forward&& forward) const {
    const at::AutoGradMode with_gradients(true);
    const auto entered = scopes_.enter();
    const RandomState::Rewound rewound(random_);
    return forward();
  }

  const RandomState& random() const { return random_; }

 private:
  const Scopes& scopes_;
  RandomState random_;
};
}  // namespace optrush
