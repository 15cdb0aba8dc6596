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
/// A replacement of a tensor that autograd saves. It lives as long as the saved tensor.
struct PackedTensor {
  Tensor kept;  ///< held until the backward; may be undefined
  /// Restores the tensor with the same sizes, strides, type and bits. Called in the backward, on a GPU by
  /// another thread; more than once if the graph is retained.
  std::function<Tensor(const Tensor& kept)> unpack;
};
/// Called without gradients for each tensor that autograd saves.
using PackTensor = std::function<PackedTensor(const Tensor&)>;

/// During its lifetime, tensors that autograd saves pass through `pack`. Scopes nest: an outer scope sees the
/// tensors that the inner one keeps, so the host's counts include offloading. Destroy them in reverse order.
class SavedTensorScope {
 public:
  enum class Reach : uint8_t {
    thread,  ///< tensors that this thread saves
    process  ///< tensors that any thread saves outside of thread scopes
  };
  explicit SavedTensorScope(PackTensor pack, Reach reach = Reach::thread);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  Reach reach_;
};

/// State of a device's default generator before a forward, so that a recomputation draws the same numbers.
class RandomState {
 public:
  explicit RandomState(at::Device device)
      : generator_(at::globalContext().defaultGenerator(device)), before_(read()) {}

  /// After the forward: drops the state if no random numbers were drawn.
  void forget_if_unused() {
    if (at::equal(*before_, read())) before_.reset();
  }

  bool used() const { return before_.has_value(); }
  /// Reads and sets the state of the generator.
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

  /// During its lifetime, the generator has the state before the forward.
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

/// Runs a forward identically again in the backward. Created before it, with its scopes and generators.
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
  /// The recomputation, with gradients, on the thread of the backward.
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
