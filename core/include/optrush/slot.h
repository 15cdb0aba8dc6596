#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "optrush/edit.h"
#include "optrush/host/slot_info.h"

namespace optrush {
struct Module;

/// A named function of the recipe: one base with one owner, and any number of wraps around it, nested by
/// phase. The model provides the default. Functions are made for each module after Event::materialized, so
/// makers may capture Params. demand() requires a feature of the base (Traits::offers).
template <class Sig, class SiteType = Module>
class Slot;

template <class R, class... A, class SiteType>
class Slot<R(A...), SiteType> : public SlotInfo {
 public:
  using Fn = std::function<R(A...)>;
  using Make = std::function<Fn(const SiteType&)>;
  using Wrap = std::function<Fn(Fn inner, const SiteType&)>;
  using SlotInfo::SlotInfo;

  /// The same base for every module.
  void replace(Fn base, Traits traits = {}) {
    replace_each([base = std::move(base)](const SiteType&) { return base; }, std::move(traits));
  }
  /// A separate base for each module; an empty function keeps the plain one.
  void replace_each(Make make, Traits traits = {}) {
    own(std::move(traits));
    make_ = std::move(make);
  }
  /// `wrap(inner)` or `wrap(inner, site)` returns the function around `inner`, or `inner` to leave a module
  /// unchanged. Parameters may be `auto`.
  template <class W>
  void wrap(Phase phase, W wrap, Traits traits = {}) {
    const size_t place = add_wrap(phase, std::move(traits));
    makers_.insert(makers_.begin() + static_cast<std::ptrdiff_t>(place), as_wrap(std::move(wrap)));
  }

  /// Called by the host (optrush/host/resolve.h): base and wraps for one module.
  Fn resolve(const SiteType& module, Fn plain) const;

 private:
  template <class W>
  static Wrap as_wrap(W wrap) {
    if constexpr (std::is_invocable_v<W&, Fn, const SiteType&>)
      return Wrap(std::move(wrap));
    else
      return [wrap = std::move(wrap)](Fn inner, const SiteType&) -> Fn { return wrap(std::move(inner)); };
  }

  struct Placed;
  Make make_;
  std::vector<Wrap> makers_;  ///< in order of wraps()
};
}  // namespace optrush
