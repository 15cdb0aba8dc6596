#include "plugin_check/opening.h"

#include <algorithm>

#include "spec/spec_json.h"
#include "train/run_setup.h"

namespace optrush {
namespace {
bool starts(const RunSpec& spec, const CheckContext& context) {
  try {
    open_run(spec, context);
    return true;
  } catch (const Skip&) {  // a missing requirement of the machine does not count
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

bool starts_on_another_model(RunSpec spec, const CheckContext& context) {
  const std::string kind = spec.model_kind;
  const Json fields = spec.model;
  return std::ranges::any_of(small_models(), [&](const SmallModel& model) {
    spec.model_kind = model.kind;
    spec.model = validate_model(model.kind, model.fields, "check");
    const bool same = spec.model_kind == kind && spec.model == fields;
    return model.has_layers && !same && starts(spec, context);
  });
}

/// Whether a plugin opens without the other one, with or without the plugins stacked with it (they may belong
/// to the other), and with or without the case's model.
bool starts_without_the_other(const CheckCase& c, const std::string& subject, const CheckContext& context) {
  const auto other = [&](const PluginUse& use) {
    return use.name != subject && std::ranges::count(c.subjects, use.name) != 0;
  };
  RunSpec spec = c.spec;
  std::erase_if(spec.plugins, other);
  RunSpec on_its_data = spec;  // the case's data may belong to the other plugin
  on_its_data.data = {};
  if (starts(spec, context) || starts(on_its_data, context) || starts_on_another_model(on_its_data, context))
    return true;
  std::erase_if(spec.plugins, [&](const PluginUse& use) { return use.name != subject; });
  return starts(spec, context);
}

bool starts_elsewhere(const CheckCase& c, const CheckContext& context) {
  if (c.subjects.size() == 1) return starts_on_another_model(c.spec, context);
  return std::ranges::all_of(
      c.subjects, [&](const std::string& subject) { return starts_without_the_other(c, subject, context); });
}
}  // namespace

std::unique_ptr<Session> open_run(const RunSpec& spec, const CheckContext& context,
                                  const std::function<void(Recipe&)>& edit) {
  auto run = RunSetup::open(spec, context.catalogue, context.device, {}, edit);
  run->connect();
  run->declare();
  run->make_ready();
  return run;
}

std::unique_ptr<Session> open_case(const CheckCase& c, const RunSpec& spec, const CheckContext& context,
                                   const std::function<void(Recipe&)>& edit) {
  try {
    return open_run(spec, context, edit);
  } catch (const Skip&) {
    throw;
  } catch (const Error& e) {
    if (starts_elsewhere(c, context)) throw Refused(e);
    throw;
  }
}
}  // namespace optrush
