#pragma once
#include <ATen/core/grad_mode.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "optrush/edit.h"

namespace optrush {
/// Thread-local state of a forward (autocast, saved-tensor hooks). A recomputation must enter it again,
/// because it runs in the backward, on a GPU even in another thread.
class Scopes {
 public:
  using Guard = std::shared_ptr<void>;  ///< its destruction undoes the scope
  /// Every scope, outermost first; leaves them in reverse.
  class Entered {
   public:
    explicit Entered(std::vector<Guard> guards) : guards_(std::move(guards)) {}
    Entered(Entered&&) = default;
    Entered& operator=(Entered&&) = delete;
    ~Entered() {
      while (!guards_.empty()) guards_.pop_back();
    }

   private:
    std::vector<Guard> guards_;
  };
  [[nodiscard]] Entered enter() const;

 private:
  friend class Recipe;
  struct Scope {
    Edit edit;
    std::function<Guard()> enter;
  };
  std::vector<Scope> scopes_;
};

/// Autocast on one device type, like torch.autocast: it restores the previous state, and casts of weights are
/// cached until the outermost scope ends.
class Autocast {
 public:
  Autocast(at::DeviceType device, at::ScalarType dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool enabled_before_;
  at::ScalarType dtype_before_;
};

/// The type to which autocast casts on this device, in this thread; none if autocast is off.
std::optional<at::ScalarType> autocast_type(at::DeviceType);

/// Whether this thread's forward is an evaluation, without gradients and training. Dropout, and code that
/// adapts to activations, must check it at each call and do nothing.
bool evaluating();
/// Whether the evaluation is of a reference model, as preference training needs.
bool of_reference();
/// Whether the evaluation is of the model without the parameters of plugins: an adapter then does nothing.
bool without_adapters();

/// During its lifetime, forwards of this thread evaluate the reference model, with or without adapters.
class ReferenceScope {
 public:
  explicit ReferenceScope(bool with_adapters);
  ~ReferenceScope();
  ReferenceScope(const ReferenceScope&) = delete;
  ReferenceScope& operator=(const ReferenceScope&) = delete;

 private:
  at::NoGradGuard no_grad_;
  bool outer_evaluates_, outer_refers_, outer_omits_;
};
}  // namespace optrush
