#include "script/functions.h"
#include "script/max_batch.h"
#include "script/settings.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush::functions {
namespace {
/// The problem with all its rungs stacked: the last variant of the ladder.
RunSpec stacked(const LuaTable& problem, ScriptContext& context, const std::string& where) {
  Experiment experiment{.name = "max_batch"};
  experiment.base = merged(RunSpec{}, settings_of(problem), where);
  if (problem.find("device") == nullptr && on_gpu(context)) experiment.base.device = "cuda";
  if (const auto* plugins = problem.find("plugins"))
    experiment.base.plugins = plugin_uses(plugins->table().items, context, where);
  for (const auto& folder : context.options().plugin_path)
    experiment.base.plugin_path.push_back(std::filesystem::absolute(folder));
  Part ladder;
  if (const auto* rungs = problem.find("rungs"))
    for (const auto& rung : rungs->table().items) ladder.rungs.push_back(rung.object<Rung>());
  experiment.parts.push_back(std::move(ladder));
  return expand(experiment).back().spec;
}

std::string type_of_scalar(const Json& value) {
  if (value.is_boolean()) return "boolean";
  if (value.is_string()) return "string";
  return value.is_number_integer() ? "integer" : "number";
}
}  // namespace

Object device(ScriptContext& context, const Call&) { return Json(on_gpu(context) ? "cuda" : "cpu"); }

Object gpu(ScriptContext& context, const Call&) { return on_gpu(context) ? context.gpu() : Json(); }

Object cpu(ScriptContext& context, const Call&) { return context.cpu(); }

Object ranks(ScriptContext& context, const Call&) {
  return context.ask([&](ScriptHost& host) { return Json(host.ranks(on_gpu(context))); });
}

Object preset(ScriptContext& context, const Call& call) {
  const auto names = call.arguments.at("names").json().get<std::vector<std::string>>();
  if (names.empty())
    throw Error(ErrorCode::missing_value, "rush.preset: no names",
                R"(give names, for example rush.preset { "short", "full" })");
  for (const auto& name : names) one_line(name, "the name of a preset");
  return Json(context.preset(names));
}

Object arg(ScriptContext& context, const Call& call) {
  const std::string name = call.arguments.at("name").text();
  const Json& fallback = call.arguments.at("default").json();
  if (!is_name(name))
    throw Error(ErrorCode::invalid_value, "rush.arg: '" + name + "' is not a valid argument name",
                "use lower-case letters, digits and '_', as in --arg layers=8");
  OptionSchema schema{.name = name, .type = type_of_scalar(fallback), .fallback = fallback};
  call.arguments.read("choices", schema.choices);
  if (!schema.choices.empty() && schema.type != "string")
    throw Error(ErrorCode::invalid_value,
                "rush.arg: choices need a string default, but the default is " + shown(fallback));
  checked(schema, fallback, "rush.arg: the default", "");
  return context.argument(schema);
}

Object max_batch(ScriptContext& context, const Call& call) {
  const LuaTable& problem = call.arguments.at("problem").table();
  const RunSpec spec = stacked(problem, context, call.where);
  BatchLimits limits{.memory_bytes = memory_limit(problem, context, "rush.max_batch", spec.train.world_size),
                     .most = kMostSequences,
                     .trial = problem.is_true("trial")};
  problem.read("most", limits.most);
  const auto batch = largest_micro_batch(spec, limits, context);
  return batch ? Json(*batch) : Json();
}
}  // namespace optrush::functions
