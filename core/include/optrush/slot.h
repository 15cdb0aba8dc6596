#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optrush/error.h"
#include "optrush/phase.h"
#include "optrush/site.h"

namespace optrush {
/// What the tracer of a compiler sees of a function: it sees ATen calls and nothing else.
enum class Trace : uint8_t {
  opaque,  ///< raw kernel, collective, host state: never traced through; its plain form is traced in its
           ///< place
  aten,    ///< ATen only, and its derivative may be derived again
  pair     ///< a Differentiable: both halves are kept
};

struct Traits {
  Trace trace = Trace::opaque;
  bool capturable = false;               ///< no host synchronization: may be part of a CUDA graph
  std::vector<std::string> offers = {};  ///< features beyond the signature: "lse", "varlen", "double"
  /// Whether a step with it can be run on tensors without values (optrush/forecast.h). Where nobody says: a
  /// wrap can, and a base can that is not opaque.
  std::optional<bool> foreseeable = {};
};

/// True while a compiler traces the calling thread.
bool tracing();

/// One line of a plan: who edited a slot, and how.
struct Edit {
  Phase phase = Phase::base;
  std::string plugin;
  Traits traits;
  /// The order of wraps around a base, of events and of scopes: whatever the order of the edits.
  bool operator<(const Edit& other) const {
    return std::pair(phase, std::string_view(plugin)) <
           std::pair(other.phase, std::string_view(other.plugin));
  }
};

/// Whose apply() runs; it belongs to the recipe.
struct Editor {
  std::string name = "plain";
  bool sealed = false;
  /// An Error where the recipe is sealed: `what` was about to be edited.
  void check_open(const std::string& what) const;
};

/// The part of a slot that does not depend on its signature: names, owners, features.
class SlotInfo {
 public:
  SlotInfo(std::string name, const Editor* editor, Traits plain)
      : name_(std::move(name)), editor_(editor), plain_{Phase::base, "plain", std::move(plain)} {}
  SlotInfo(const SlotInfo&) = delete;
  SlotInfo& operator=(const SlotInfo&) = delete;

  const std::string& name() const { return name_; }
  /// The plugin that replaced the base, or "plain".
  const Edit& base() const { return base_.plugin.empty() ? plain_ : base_; }
  /// Wraps, innermost first: sorted by (phase, plugin), whatever the order of edits.
  const std::vector<Edit>& wraps() const { return wraps_; }
  /// The base has to offer `feature`; checked by Recipe::check().
  void demand(std::string feature);
  void check() const;
  /// Whether anybody edited it.
  bool edited() const { return !base_.plugin.empty() || !wraps_.empty(); }

 protected:
  void own(Traits traits);  ///< an Error names both owners
  /// The place of a new wrap among wraps().
  size_t add_wrap(Phase phase, Traits traits);
  /// "plugin 'adapter' in slot 'linear' of model.layers.0.mlp.down_proj"
  std::string place(const std::string& plugin, const std::string& path) const;
  /// Throws the present exception on, with `place` where it has none yet: the innermost function names it.
  [[noreturn]] static void throw_on(const std::string& place);
  [[noreturn]] static void refuse_trace(const std::string& place);

  struct Demand {
    std::string feature, plugin;
  };
  std::string name_;
  const Editor* editor_;
  Edit plain_, base_;
  std::vector<Edit> wraps_;
  std::vector<Demand> demands_;
};

/// A named place of the recipe: one base with one owner, and any number of wraps around it, nested by phase.
/// The plain base comes from the model; resolving happens once a site after Event::placed, so makers may
/// capture Params.
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

  /// Called by the host. Under a tracer a base that can't be traced gives way to the plain one, and a wrap
  /// that can't is an Error.
  Fn resolve(const SiteType& site, Fn plain) const {
    Fn fn = plain;
    if (make_) {
      if (Fn replaced = make_(site)) {
        fn = base_.traits.trace != Trace::opaque || !plain
                 ? replaced
                 : Fn([replaced, plain](A... arguments) -> R {
                     return tracing() ? plain(std::forward<A>(arguments)...)
                                      : replaced(std::forward<A>(arguments)...);
                   });
      }
    }
    if (edited() && fn) fn = Placed{std::move(fn), place(base_.plugin, site.path), false};
    for (size_t i = 0; i < makers_.size(); ++i) {
      const Edit& by = wraps()[i];
      fn = makers_[i](std::move(fn), site);
      if (!fn) throw Error("plugin '" + by.plugin + "' wrapped slot '" + name_ + "' with an empty function");
      const bool unchanged = fn.template target<Placed>() != nullptr;
      if (!unchanged)
        fn = Placed{std::move(fn), place(by.plugin, site.path), by.traits.trace == Trace::opaque};
    }
    return fn;
  }

 private:
  /// A function that knows its place: what it throws says where it comes from.
  struct Placed {
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

  Make make_;
  std::vector<Wrap> makers_;  ///< in order of wraps()
};
}  // namespace optrush
