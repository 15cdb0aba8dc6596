#pragma once
#include <functional>
#include <vector>

#include "plugin/loader.h"
#include "train/session.h"

namespace optrush {
/// A spec made real in a process of its own rank: plugins loaded and applied, the recipe checked, then a
/// session taken from stage to stage. Training, `forward`, forecasts, checks and tests all open one.
class OpenedRun {
 public:
  /// Loads the plugins of `spec` and records their edits; `edit` may add edits of the host's own. Touches no
  /// device. Throws what loading, apply() and Recipe::check() throw.
  OpenedRun(const RunSpec& spec, at::Device device, const std::function<void(Recipe&)>& edit = {});

  /// Event::meshed, then parameters by name and shape.
  void declare();
  /// Values on the device, operators, shards and optimizer: after it, the session trains.
  void make_ready();

  Session& session() { return session_; }
  Recipe& recipe() { return recipe_; }
  std::vector<LoadedPlugin>& plugins() { return plugins_; }

 private:
  std::vector<LoadedPlugin> plugins_;  // first: what they gave to the recipe and the session ends before them
  Recipe recipe_;
  Session session_;
};
}  // namespace optrush
