#pragma once
#include <ATen/Context.h>
#include <ATen/Functions.h>

#include <mutex>
#include <optional>

#include "optrush/tensor.h"

namespace optrush {
/// Where a device's default generator stood before a forward, so that a recomputation draws the same numbers
/// again: dropout then has the mask of the forward.
class RandomState {
 public:
  explicit RandomState(at::Device device)
      : generator_(at::globalContext().defaultGenerator(device)), before_(read()) {}

  /// After the forward: nothing is kept where it drew no numbers.
  void forget_if_unused() {
    if (at::equal(*before_, read())) before_.reset();
  }

  bool used() const { return before_.has_value(); }
  /// Where the generator stands, and to put it there.
  Tensor read() const {
    auto generator = generator_;
    const std::lock_guard lock(generator.mutex());
    return generator.get_state();
  }
  void write(const Tensor& state) const {
    auto generator = generator_;
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }

  /// While it lives, the generator stands where the forward found it.
  class Rewound {
   public:
    explicit Rewound(const RandomState& state) : state_(state) {
      if (!state_.before_) return;
      present_ = state_.read();
      state_.write(*state_.before_);
    }
    ~Rewound() {
      if (present_) state_.write(*present_);
    }
    Rewound(const Rewound&) = delete;
    Rewound& operator=(const Rewound&) = delete;

   private:
    const RandomState& state_;
    std::optional<Tensor> present_;
  };

 private:
  at::Generator generator_;
  std::optional<Tensor> before_;
};
}  // namespace optrush
