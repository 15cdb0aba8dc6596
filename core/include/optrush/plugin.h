#pragma once
#include "optrush/differentiable.h"
#include "optrush/error.h"
#include "optrush/host/plugin_note.h"
#include "optrush/options.h"
#include "optrush/recipe.h"

namespace optrush {
/// A technique. One instance for each use in a run; it lives until the process ends (libraries are never
/// closed), so functions given to slots may capture `this` and members are the plugin's state.
class Plugin {
 public:
  virtual ~Plugin() = default;
  /// Records edits and nothing else: no device, no process group, no tensor. It also runs for `worker
  /// --plan`.
  virtual void apply(Recipe&, const Options&) = 0;
};
}  // namespace optrush

// A plugin's source ends with OPTRUSH_PLUGIN(Mine, R"json({"name": "mine", ...})json"), from plugin_note.h;
// docs/plugins/abi.md has the fields.
