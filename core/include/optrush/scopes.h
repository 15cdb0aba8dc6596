#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "optrush/slot.h"

namespace optrush {
/// Thread-local state of a forward (autocast, saved-tensor hooks). A recomputation enters it again: it runs
/// under the state of the backward, on a GPU even on another thread.
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
}  // namespace optrush
