#pragma once
#include "optrush/error.h"
#include "optrush/slot.h"
#include "optrush/unit.h"

namespace optrush {
/// A function with its place, which it adds to its exceptions.
template <class R, class... A, class SiteType>
struct Slot<R(A...), SiteType>::Placed {
  Fn fn;
  std::string place;
  bool untraceable;
  R operator()(A... arguments) const {
    if (untraceable && tracing()) refuse_trace(place);
    try {
      return fn(std::forward<A>(arguments)...);
    } catch (...) {
      throw_on(place);
    }
  }
};

/// Under a tracer, the plain function replaces a base that cannot be traced; for a wrap it is an Error.
template <class R, class... A, class SiteType>
auto Slot<R(A...), SiteType>::resolve(const SiteType& module, Fn plain) const -> Fn {
  Fn fn = plain;
  if (make_) {
    if (Fn replaced = make_(module)) {
      fn = base_.traits.trace != Trace::opaque || !plain
               ? replaced
               : Fn([replaced, plain](A... arguments) -> R {
                   return tracing() ? plain(std::forward<A>(arguments)...)
                                    : replaced(std::forward<A>(arguments)...);
                 });
    }
  }
  if (edited() && fn) fn = Placed{std::move(fn), place(base_.plugin, module.path), false};
  for (size_t i = 0; i < makers_.size(); ++i) {
    const Edit& by = wraps()[i];
    fn = makers_[i](std::move(fn), module);
    if (!fn)
      throw Error(ErrorCode::invalid_plugin,
                  "plugin '" + by.plugin + "' wrapped slot '" + name_ + "' with an empty function");
    const bool unchanged = fn.template target<Placed>() != nullptr;
    if (!unchanged)
      fn = Placed{std::move(fn), place(by.plugin, module.path), by.traits.trace == Trace::opaque};
  }
  return fn;
}
}  // namespace optrush
