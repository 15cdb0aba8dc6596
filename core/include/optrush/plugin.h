#pragma once
#include "optrush/differentiable.h"
#include "optrush/error.h"
#include "optrush/forecast.h"
#include "optrush/host/plugin_note.h"
#include "optrush/optimizer.h"
#include "optrush/options.h"
#include "optrush/param.h"
#include "optrush/recipe.h"
#include "optrush/scopes.h"
#include "optrush/step.h"

/// All that most plugins need. The folder `advanced` has the rest: where the elements of a parameter are
/// stored, saved tensors, data parallelism, and the machine.
namespace optrush {
/// An optimization technique. There is one instance per use in a run. It lives until the process ends, so
/// functions for slots may capture `this`, and members are the plugin's state.
class Plugin {
 public:
  virtual ~Plugin() = default;
  /// Records edits only: it must not use a device, process group or tensor. It also runs for `worker --plan`.
  virtual void apply(Recipe&, const Options&) = 0;
};
}  // namespace optrush

// A plugin's source ends with OPTRUSH_PLUGIN(Mine, R"json({"name": "mine", ...})json"), from plugin_note.h;
// docs/plugins/abi.md has the fields.
