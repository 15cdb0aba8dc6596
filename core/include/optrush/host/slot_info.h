#pragma once
#include <string>
#include <utility>
#include <vector>

#include "optrush/edit.h"

namespace optrush {
/// The plugin whose apply() runs; part of the recipe.
struct Editor {
  std::string name = "plain";
  bool sealed = false;
  /// Throws an Error if the recipe is sealed; `what` is the subject of the edit.
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
  /// Wraps, innermost first, sorted by (phase, plugin); the order of edits does not matter.
  const std::vector<Edit>& wraps() const { return wraps_; }
  /// Requires `feature` of the base; Recipe::check() checks it.
  void demand(Feature feature);
  void check() const;
  /// Whether a plugin edited it.
  bool edited() const { return !base_.plugin.empty() || !wraps_.empty(); }

 protected:
  void own(Traits traits);  ///< an Error names both owners
  /// The place of a new wrap among wraps().
  size_t add_wrap(Phase phase, Traits traits);
  /// "plugin 'adapter' in slot 'linear' of model.layers.0.mlp.down_proj"
  std::string place(const std::string& plugin, const std::string& path) const;
  /// Rethrows the present exception, with `place` if it has none yet, so the innermost function names it.
  [[noreturn]] static void throw_on(const std::string& place);
  [[noreturn]] static void refuse_trace(const std::string& place);

  struct Demand {
    Feature feature;
    std::string plugin;
  };
  std::string name_;
  const Editor* editor_;
  Edit plain_, base_;
  std::vector<Edit> wraps_;
  std::vector<Demand> demands_;
};
}  // namespace optrush
