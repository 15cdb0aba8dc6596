#include "check/opening.h"

#include <algorithm>

namespace optrush {
namespace {
bool starts(const RunSpec& spec, at::Device device) {
  try {
    open_run(spec, device);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// The stacks without one of the two plugins; of a plugin alone, the other models.
std::vector<RunSpec> elsewhere(const CheckCase& c) {
  std::vector<RunSpec> others;
  if (c.subjects.size() > 1) {
    for (const std::string& taken : c.subjects) {
      others.push_back(c.spec);
      std::erase_if(others.back().plugins, [&](const PluginUse& use) { return use.name == taken; });
    }
    return others;
  }
  for (const SmallModel& model : small_models()) {
    if (model.kind == c.spec.model_kind || model.kind == "operator") continue;
    others.push_back(c.spec);
    others.back().model_kind = model.kind;
    others.back().model = validate_model(model.kind, model.fields, "check");
  }
  return others;
}

bool starts_elsewhere(const CheckCase& c, at::Device device) {
  const auto here = [&](const RunSpec& spec) { return starts(spec, device); };
  const auto others = elsewhere(c);
  return c.subjects.size() > 1 ? std::ranges::all_of(others, here) : std::ranges::any_of(others, here);
}
}  // namespace

std::unique_ptr<OpenedRun> open_run(const RunSpec& spec, at::Device device,
                                    const std::function<void(Recipe&)>& edit) {
  auto run = std::make_unique<OpenedRun>(spec, device, edit);
  run->declare();
  run->make_ready();
  return run;
}

std::unique_ptr<OpenedRun> open_case(const CheckCase& c, const RunSpec& spec, at::Device device,
                                     const std::function<void(Recipe&)>& edit) {
  try {
    return open_run(spec, device, edit);
  } catch (const Skip&) {
    throw;
  } catch (const Error& e) {
    if (starts_elsewhere(c, device)) throw Refused(e);
    throw;
  }
}
}  // namespace optrush
