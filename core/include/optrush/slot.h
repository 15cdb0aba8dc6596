#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "optrush/edit.h"
#include "optrush/host/slot_info.h"

namespace optrush {
struct Site;

/// A named place of the recipe: one base with one owner, and any number of wraps around it, nested by phase.
/// The plain base comes from the model. Functions are made for each site after Event::placed, so makers may
/// capture Params. demand("feature") asks the base for one (Traits::offers).
template <class Sig, class SiteType = Site>
class Slot;

template <class R, class... A, class SiteType>
class Slot<R(A...), SiteType> : public SlotInfo {
 public:
  using Fn = std::function<R(A...)>;
  using Make = std::function<Fn(const SiteType&)>;
  using Wrap = std::function<Fn(Fn inner, const SiteType&)>;
  using SlotInfo::SlotInfo;

  /// The same base for every site.
  void replace(Fn base, Traits traits = {}) {
    replace_each([base = std::move(base)](const SiteType&) { return base; }, std::move(traits));
  }
  /// A base made for each site; an empty function keeps the plain one there.
  void replace_each(Make make, Traits traits = {}) {
    own(std::move(traits));
    make_ = std::move(make);
  }
  /// Return `inner` itself where the site is not wanted.
  void wrap(Phase phase, Wrap wrap, Traits traits = {}) {
    const size_t place = add_wrap(phase, std::move(traits));
    makers_.insert(makers_.begin() + static_cast<std::ptrdiff_t>(place), std::move(wrap));
  }

  /// By the host (optrush/host/resolve.h): base and wraps for one site.
  Fn resolve(const SiteType& site, Fn plain) const;

 private:
  struct Placed;
  Make make_;
  std::vector<Wrap> makers_;  ///< in order of wraps()
};
}  // namespace optrush
