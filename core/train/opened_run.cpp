#include "train/opened_run.h"

namespace optrush {
OpenedRun::OpenedRun(const RunSpec& spec, at::Device device, const std::function<void(Recipe&)>& edit)
    : plugins_(load_plugins(spec)), recipe_(spec), session_(recipe_, device) {
  apply_plugins(plugins_, recipe_);
  if (edit) edit(recipe_);
  recipe_.check();
  recipe_.mesh.settle(0, 1);
}

void OpenedRun::declare() {
  recipe_.fire(Event::meshed, session_);
  session_.declare();
}

void OpenedRun::make_ready() {
  session_.place();
  session_.make_ready();
}
}  // namespace optrush
