#include <algorithm>
#include <cctype>

#include "base/files.h"
#include "base/suggest.h"
#include "experiment/stack.h"
#include "results/saved_states.h"
#include "script/functions.h"
#include "script/max_batch.h"
#include "script/settings.h"
#include "spec/spec_json.h"
#include "spec/state_files.h"
#include "spec/value.h"

namespace optrush {
namespace {
/// Checks a name from the script that becomes part of the report's folder.
std::string folder_name(const std::string& text, const std::string& what) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  bool valid = !text.empty() && text.size() <= 80 && plain(text[0]);
  for (const char c : text) valid = valid && (plain(c) || c == '.' || c == '_' || c == '-');
  if (!valid)
    throw Error(ErrorCode::invalid_value, what + " cannot be '" + text + "'",
                "it becomes a folder name: use letters, digits, '.', '_' and '-'");
  return text;
}

Draft& draft_of(const Call& call) { return *std::get<Draft*>(*call.self); }

std::vector<Rung> rungs_of(const LuaValue& list, const std::string& what) {
  std::vector<Rung> rungs;
  for (const auto& item : list.table().items) rungs.push_back(item.object<Rung>());
  if (rungs.empty())
    throw Error(ErrorCode::missing_value, what + " has no rungs", "put rush.rung(...) between the braces");
  return rungs;
}

/// Checks that everything that a view names exists.
void check_view(const Part& part, const RunSpec& base) {
  const GridView& view = part.view;
  if (!view.axes.empty() && view.axes.size() != part.axes.size())
    throw Error(ErrorCode::invalid_value,
                "exp:grid: " + std::to_string(view.axes.size()) + " names for " +
                    std::to_string(part.axes.size()) + " axes",
                "name each axis, or none");
  if (!view.against.empty()) {
    std::vector<std::string> names;
    for (const auto& axis : part.axes)
      for (const auto& rung : axis) names.push_back(rung.name);
    const auto times = std::ranges::count(names, view.against);
    if (times == 0)
      throw Error(ErrorCode::unknown_name,
                  "exp:grid: against names '" + view.against + "', which is not a rung of the grid",
                  did_you_mean(view.against, names));
    if (times > 1)
      throw Error(ErrorCode::conflict,
                  "exp:grid: against names '" + view.against + "', which is a rung on several axes",
                  "give the rungs of each axis unique names");
  }
  if (view.x.empty() != view.curves.empty())
    throw Error(ErrorCode::conflict, "exp:grid: x and curves must be given together",
                R"(x = "train.seq_len", curves = { "peak_memory" })");
  std::string path = "/" + view.x;
  std::ranges::replace(path, '.', '/');
  const Json spec = to_json(base);
  const Json::json_pointer pointer(view.x.empty() ? "" : path);
  if (!view.x.empty() && (!spec.contains(pointer) || !spec.at(pointer).is_number()))
    throw Error(ErrorCode::invalid_value, "exp:grid: '" + view.x + "' is not a numeric setting",
                R"(for example x = "train.seq_len")");
}

/// Reads the number of rounds, or the conditions for their end.
void read_rounds(const LuaTable& options, Experiment& experiment, const std::string& where) {
  const auto *rounds = options.find("rounds"), *within = options.find("within"),
             *at_most = options.find("at_most");
  if (rounds != nullptr && (within != nullptr || at_most != nullptr))
    throw Error(ErrorCode::conflict, "exp:run: rounds cannot be combined with within and at_most",
                R"(give rounds = 5, or within = 0.03, at_most = "5m")");
  if (within != nullptr && at_most == nullptr)
    throw Error(ErrorCode::missing_value, "exp:run: within needs at_most, the time limit",
                R"(within = 0.03, at_most = "5m")");
  options.read("rounds", experiment.rounds);
  if (at_most == nullptr) return;
  experiment.until = Until{.at_most_s = seconds_from(at_most->json(), where + ": exp:run: at_most")};
  options.read("within", experiment.until->within);
}

void read_label_and_interleave(const LuaTable& options, Experiment& experiment) {
  if (const auto* label = options.find("label"))
    experiment.label = folder_name(label->text(), "the label of a report");
  if (options.has("interleave"))
    experiment.interleave = options.is_true("interleave") ? Interleave::on : Interleave::off;
}

/// The folder with the state; for a run's folder, the one inside.
std::string saved_state(const std::string& given, const ScriptContext& context) {
  const std::filesystem::path folder = context.resolve(given);
  for (const auto& candidate : {folder, folder / "state"})
    if (std::filesystem::is_regular_file(candidate / "state.json"))
      return std::filesystem::absolute(candidate).lexically_normal().string();
  const Error e = without_state(folder);
  throw Error(e.code(), e.message(), e.cure() + "; " + context.start_of(given));
}

void read_start(const LuaValue& given, const ScriptContext& context, RunSpec& spec) {
  spec.start = saved_state((given.is_string() ? given : given.table().at("state")).text(), context);
  if (given.is_table()) given.table().read("weights_only", spec.weights_only);
  const Json step = read_json(state_head(spec.start)).value("step", Json());
  if (!spec.weights_only && step.is_number_integer()) check_schedule(spec.train, step.get<int64_t>());
}

/// The program of the base. It trains its own model on its own data.
void read_program(const LuaTable& base, Experiment& experiment, const ScriptContext& context,
                  const std::string& where, Json& settings) {
  const LuaTable& given = base.at("program").table();
  for (const char* field : {"model", "data", "plugins", "validate", "save", "sample", "start"})
    if (base.has(field))
      throw Error(ErrorCode::conflict,
                  std::string("rush.experiment: ") + field + " cannot be combined with program",
                  "leave it out: the program has its own model, data and files");
  experiment.program = program_of(given, "rush.experiment: program", context, where);
  if (!given.has("interleave")) experiment.program->interleave = true;
  settings["model_kind"] = kProgramKind;
  if (const auto* env = given.find("env")) settings["env"].update(to_json(*env, "env"));
}

/// The settings that a base alone has, as JSON of a spec.
Json settings_of_base(const LuaTable& base) {
  Json settings = Json::object();
  if (const auto* given = base.find("validate")) {
    LuaTable validate = given->table();
    if (const auto data = validate.fields.extract("data"); data && !data.mapped().is_nil())
      settings["validate"]["data"] = to_json(data.mapped().object<DataSpec>());
    settings["validate"].update(to_json(LuaValue{validate}, "validate"));
  }
  for (const char* name : {"save", "sample"})
    if (const auto* given = base.find(name)) settings[name] = to_json(*given, name);
  return settings;
}

/// Adds a part and expands immediately, so that errors have the script's line.
void add_part(Draft& draft, Part part) {
  Experiment with = draft.experiment;
  with.parts.push_back(std::move(part));
  draft.variants = expand(with);
  draft.experiment = std::move(with);
}

/// Checks the stacks of ladders. Invalid stacks of an ablation or a grid become rows of the report.
void check_ladders(std::vector<Variant> variants, const Catalogue& catalogue) {
  std::erase_if(variants, [](const Variant& variant) {
    return variant.group != "base" && variant.group != "ladder" && variant.group != "full";
  });
  check_stacks(variants, catalogue);
}

std::vector<Rung> axis_of(const LuaValue& item, size_t number) {
  std::vector<Rung> rungs;
  if (item.is_table())
    for (const auto& rung : item.table().items) rungs.push_back(rung.object<Rung>());
  else
    rungs.push_back(item.object<Rung>());
  if (rungs.empty())
    throw Error(ErrorCode::missing_value, "exp:search: part " + std::to_string(number) + " has no rung",
                "put rush.rung(...) into the part");
  for (const Rung& rung : rungs) {
    if (rung.external)
      throw Error(
          ErrorCode::unsupported,
          "exp:search: '" + rung.name + "' is an external program, on which plugins cannot be stacked",
          "measure it in a ladder with the stack that the search found", rung.where);
    if (!rung.over.empty())
      throw Error(ErrorCode::conflict, "exp:search: '" + rung.name + "' is placed over '" + rung.over + "'",
                  "leave out `over`: a search determines the order", rung.where);
  }
  return rungs;
}
}  // namespace

namespace functions {
Object experiment(ScriptContext& context, const Call& call) {
  const LuaTable& given = call.arguments.at("base").table();
  Draft draft{.where = call.where};
  Experiment& experiment = draft.experiment;
  experiment.name = folder_name(given.at("name").text(), "the name of an experiment");
  given.read("question", experiment.question);
  experiment.script = context.script();
  experiment.script_sha256 = sha256_file(context.script());
  Json settings = settings_of(given);
  if (given.has("program"))
    read_program(given, experiment, context, call.where, settings);
  else if (!given.has("model"))
    throw Error(ErrorCode::missing_value, "rush.experiment: model is missing",
                "give a model from rush.llama, rush.operator, rush.collective or rush.checkpoint, or "
                R"(program = { command = { "{python}", "train.py" } })");
  experiment.base = merged(RunSpec{.experiment = experiment.name}, settings, call.where);
  Json base = to_json(experiment.base);
  merge(base, settings_of_base(given));
  experiment.base = run_spec_from_json(base, call.where);
  if (const auto* start = given.find("start")) read_start(*start, context, experiment.base);
  given.read("target_loss", experiment.target_loss);
  given.read("stop_behind", experiment.stop_behind);
  if (const auto* seeds = given.find("seeds"))
    set_seeds(to_json(*seeds, "seeds"), experiment, call.where + ": rush.experiment");
  if (const auto* plugins = given.find("plugins"))
    experiment.base.plugins = plugin_uses(plugins->table().items, context, call.where);
  for (const auto& folder : context.options().plugin_path)
    experiment.base.plugin_path.push_back(std::filesystem::absolute(folder));
  given.read("rounds", experiment.rounds);
  given.read("price_per_hour", experiment.price_per_hour);
  if (const auto* currency = given.find("currency"))
    experiment.currency = one_line(currency->text(), "the currency");
  draft.variants = expand(experiment);  // errors here have this line
  return &context.add(std::move(draft));
}

Object ladder(ScriptContext& context, const Call& call) {
  Part part{.rungs = rungs_of(call.arguments.at("rungs"), "the ladder")};
  if (const auto* options = call.arguments.find("options")) {
    const LuaTable& given = options->table();
    const auto* batch = given.find("batch");
    const bool trial = given.is_true("trial");
    if (batch != nullptr && batch->text() == "max")
      fill_memory(part, draft_of(call).experiment,
                  {.memory_bytes = memory_limit(given, context, "exp:ladder",
                                                draft_of(call).experiment.base.train.world_size),
                   .trial = trial},
                  context);
    else if (given.has("memory") || trial)
      throw Error(ErrorCode::missing_value, "exp:ladder: memory and trial need batch = \"max\"",
                  R"(batch = "max")");
  }
  add_part(draft_of(call), std::move(part));
  return {};
}

Object ablation(ScriptContext&, const Call& call) {
  auto rungs = rungs_of(call.arguments.at("rungs"), "the ablation");
  if (rungs.size() == 1)
    throw Error(ErrorCode::missing_value, "an ablation needs at least two rungs",
                "add a rung, or use exp:ladder");
  add_part(draft_of(call), {.arrangement = Arrangement::ablation, .rungs = std::move(rungs)});
  return {};
}

Object grid(ScriptContext&, const Call& call) {
  Part part{.arrangement = Arrangement::grid};
  const LuaTable& axes = call.arguments.at("axes").table();
  for (const auto& axis : axes.items)
    part.axes.push_back(rungs_of(axis, "axis " + std::to_string(part.axes.size() + 1)));
  std::vector<std::string> names;
  for (const auto& [name, axis] : axes.fields) {
    part.axes.push_back(rungs_of(axis, "axis '" + name + "'"));
    names.push_back(name);
  }
  if (part.axes.empty())
    throw Error(ErrorCode::missing_value, "the grid has no axes",
                "exp:grid { batch = { rush.rung(...), ... }, ... }");
  if (const auto* view = call.arguments.find("view"))
    part.view = fields_of<GridView>().read(to_json(*view, "view"), call.where);
  if (part.view.axes.empty()) part.view.axes = names;
  check_view(part, draft_of(call).experiment.base);
  add_part(draft_of(call), std::move(part));
  return {};
}

Object run(ScriptContext& context, const Call& call) {
  Draft& draft = draft_of(call);
  Experiment experiment = draft.experiment;
  if (const auto* options = call.arguments.find("options")) {
    read_rounds(options->table(), experiment, call.where);
    read_label_and_interleave(options->table(), experiment);
    options->table().read("trace", experiment.trace);
    options->table().read("max_restarts", experiment.max_restarts);
  }
  experiment.arguments = context.arguments();
  check_ladders(draft.variants, context.catalogue());
  draft.ran = true;
  return Report{context.run(experiment, draft.where)};
}

Object search(ScriptContext& context, const Call& call) {
  Draft& draft = draft_of(call);
  Experiment experiment = draft.experiment;
  if (!experiment.parts.empty())
    throw Error(ErrorCode::conflict, "exp:search: the experiment has a ladder, an ablation or a grid already",
                "use a separate experiment for the search");
  if (!experiment.seeds.empty())
    throw Error(ErrorCode::conflict, "exp:search: a search cannot be combined with seeds",
                "leave out seeds, and measure the stack that the search found with them");
  SearchRequest request;
  for (const auto& item : call.arguments.at("parts").table().items)
    request.axes.push_back(axis_of(item, request.axes.size() + 1));
  if (request.axes.empty())
    throw Error(ErrorCode::missing_value, "exp:search has no parts", "put rush.rung(...) between the braces");
  Until& until = experiment.until.emplace(kSearchUntil);
  if (const auto* options = call.arguments.find("options")) {
    const LuaTable& given = options->table();
    if (const auto* memory = given.find("memory"))
      request.memory_bytes = bytes_from(memory->json(), "exp:search: memory");
    given.read("within", until.within);
    if (const auto* at_most = given.find("at_most"))
      until.at_most_s = seconds_from(at_most->json(), call.where + ": exp:search: at_most");
    read_label_and_interleave(given, experiment);
  }
  expand(each_alone(experiment, request));  // an Error here has this line
  experiment.arguments = context.arguments();
  draft.ran = true;
  return Report{context.search(experiment, request, draft.where)};
}

Object report(ScriptContext& context, const Call& call) {
  context.report(std::get<Report>(*call.self).folder);
  return {};
}

Object dir(ScriptContext&, const Call& call) { return Json(std::get<Report>(*call.self).folder.string()); }
}  // namespace functions
}  // namespace optrush
