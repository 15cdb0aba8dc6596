#pragma once
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <functional>
#include <mutex>
#include <optional>

#include "optrush/scopes.h"
#include "optrush/tensor.h"

namespace optrush {
/// What stands in for a tensor that autograd saves. It lives as long as the saved tensor would; what its
/// functions hold goes with it.
struct PackedTensor {
  Tensor kept;  ///< held until the backward; may be undefined
  /// Gives the tensor back: the same sizes, strides, type and bits. Called in the backward, on a GPU on
  /// another thread; more than once where a graph is kept.
  std::function<Tensor(const Tensor& kept)> unpack;
};
/// Called without gradients for each tensor that autograd saves.
using PackTensor = std::function<PackedTensor(const Tensor&)>;

/// While it lives, tensors that autograd saves go through `pack`. Scopes nest: an outer one sees what the
/// inner one keeps, so offloading shows in what the host counts. Destroyed in reverse order of construction.
class SavedTensorScope {
 public:
  enum class Reach : uint8_t {
    thread,  ///< what this thread saves
    process  ///< what any thread saves, outside of every scope of a thread
  };
  explicit SavedTensorScope(PackTensor pack, Reach reach = Reach::thread);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  Reach reach_;
};

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
