// --set key=value of the command line, one per line, on an experiment with a rung.
#include "cli/overrides.h"

#include <sstream>

#include "plugins_folder.h"

namespace {
optrush::Experiment experiment() {
  using namespace optrush;
  Experiment start;
  start.name = "fuzz";
  start.base.plugin_path = {fuzz::plugins_folder()};
  start.base.plugins = {{"fused_adamw", Json::object()}};
  Rung lora{.name = "lora", .plugins = {{"lora", {{"rank", 4}}}}};
  start.parts = {{.rungs = {lora}}};
  return experiment_from_json(to_json(start), "start");  // with every default
}
}  // namespace

FUZZ_TARGET(set_option) {
  using namespace optrush;
  static const Experiment start = experiment();
  Overrides overrides;
  std::istringstream lines(fuzz::text_of(data, size));
  for (std::string line; overrides.set.size() < 4 && std::getline(lines, line);)
    overrides.set.push_back(line);
  fuzz::feed([&] {
    Experiment changed = start;
    apply(overrides, changed);
    const Json json = to_json(changed);
    try {
      fuzz::hold(to_json(experiment_from_json(json, "again")) == json, "the experiment is read again");
    } catch (const Error& e) {
      fuzz::fail(std::string("the experiment is refused when it is read again: ") + e.what());
    }
  });
  return 0;
}
