#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include "optrush/error.h"
#include "optrush/json.h"
#include "spec/model_kinds.h"
#include "spec/spec_fields.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
/// Environment variables that a spec must not set, and why.
struct Owned {
  std::vector<std::string> names;
  std::string why, cure;
};

const std::vector<Owned>& owned() {
  static const std::vector<Owned> all = {
      {{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
       "is set for each rank at the start of a run",
       "use train = { world_size = ... }"},
      {{"OMP_NUM_THREADS", "MKL_NUM_THREADS"},
       "follows from the number of threads of the run",
       "use threads = ..."},
      {{"CUDA_VISIBLE_DEVICES"}, "would change the machine for all rungs", "set it for optrush itself"},
      {{"LD_PRELOAD"},
       "would be ignored silently if a library is missing",
       "set it for optrush itself; in rush.external, use preload = { ... }"},
      {{"LD_LIBRARY_PATH"}, "would change the torch that is loaded", "set it for optrush itself"},
  };
  return all;
}

bool is_variable(const std::string& name) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::ranges::all_of(name, plain);
}

/// Throws an Error if a spec must not set this environment variable: its name is invalid, or the program, a
/// launcher or another setting sets it. The Error states the remedy.
void check_run_variable(const std::string& name, const std::string& where) {
  if (!is_variable(name))
    throw Error(ErrorCode::invalid_value,
                "env: " + shown(Json(name)) + " is not a valid name of an environment variable",
                "use letters, digits and '_', and do not start with a digit", where);
  const auto refuse = [&](const std::string& why, const std::string& cure) {
    throw Error(ErrorCode::invalid_value, "env: a run can't set " + name + ": it " + why, cure, where);
  };
  if (name.starts_with("OPTRUSH_")) refuse("belongs to optrush itself", "set it for optrush itself");
  for (const auto& some : owned())
    if (std::ranges::find(some.names, name) != some.names.end()) refuse(some.why, some.cure);
}

constexpr int kSchemaVersion = 1;
constexpr std::array<std::string_view, 5> kPurposes = {"measure", "probe", "reference", "repeat", "drift"};
static_assert(kPurposes.size() == static_cast<size_t>(Purpose::drift) + 1);

/// Fields that a rung may change. The controller sets the others.
const std::vector<std::string> kSettings = {"model_kind", "model",   "data", "train",
                                            "device",     "threads", "env",  "timeout_s"};

/// Merges `patch` into `base` recursively. Unlike in a JSON merge patch, null does not delete a field.
void merge(Json& base, const Json& patch) {
  if (!base.is_object() || !patch.is_object()) {
    base = patch;
    return;
  }
  for (const auto& [key, value] : patch.items()) {
    if (base.contains(key))
      merge(base[key], value);
    else
      base[key] = value;
  }
}

bool replaces_data(const Json& base, const Json& settings) {
  const auto data = settings.find("data");
  return data != settings.end() && data->is_object() && data->contains("kind") &&
         (*data)["kind"] != base["data"]["kind"];
}
bool replaces_model(const Json& settings) {
  if (settings.contains("model_kind")) return true;
  const auto model = settings.find("model");
  return model != settings.end() && model->is_object() && model->contains("checkpoint");
}

/// A field that is a spec with its own checks.
template <class M>
Fields<RunSpec>::Field part(M RunSpec::*member, M (*from_json)(const Json&, const std::string&),
                            OptionSchema schema) {
  schema.type = "object";
  schema.fallback = to_json(M{});
  return {schema,
          [=](RunSpec& spec, const Json& json, const std::string&, const std::string& where) {
            spec.*member = from_json(json, where);
          },
          [=](const RunSpec& spec) { return to_json(spec.*member); }};
}

Fields<RunSpec>::Field schema_version() {
  const OptionSchema schema = {.name = "schema_version",
                               .type = "integer",
                               .doc = "version of this format",
                               .fallback = kSchemaVersion,
                               .min = kSchemaVersion,
                               .max = kSchemaVersion};
  return {schema,
          [=](RunSpec&, const Json& json, const std::string& subject, const std::string& where) {
            checked(schema, json, subject, where);
          },
          [](const RunSpec&) { return Json(kSchemaVersion); }};
}

Fields<RunSpec>::Field model() {
  const OptionSchema schema = {
      .name = "model", .type = "object", .doc = "fields of the model kind", .fallback = Json::object()};
  // Not checked here, because model_kind may follow later in the object; run_spec_from_json() checks it.
  return {schema, [](RunSpec& spec, const Json& json, const auto&, const auto&) { spec.model = json; },
          [](const RunSpec& spec) { return spec.model; }};
}

void check_length(const RunSpec& spec, const std::string& where) {
  if (spec.train.epochs > 0 && spec.data.kind == "random")
    throw Error(ErrorCode::conflict,
                "train.epochs is " + std::to_string(spec.train.epochs) + ", but random data has no end",
                "give data from a file, or train.steps only", where);
  if (!spec.sample.prompts.empty() && spec.model_kind != "llama")
    throw Error(ErrorCode::unsupported,
                "sample: a model of kind '" + spec.model_kind + "' cannot continue text",
                "leave out sample, or train a Llama", where);
}

void check_validate(const RunSpec& spec, const std::string& where) {
  check_length(spec, where);
  if (spec.validate.every == 0) return;
  if (spec.model_kind != "llama")
    throw Error(ErrorCode::unsupported,
                "validate: a model of kind '" + spec.model_kind + "' does not train on tokens",
                "leave validate out, or train a Llama", where);
  if (!validates_on_own_data(spec) && spec.data.kind != "random" &&
      to_json(spec.validate.data) == to_json(spec.data))
    throw Error(ErrorCode::invalid_value, "validate.data is the training data",
                "leave it out to hold out the end of the data", where);
}

Fields<RunSpec>::Field environment() {
  const OptionSchema schema = {.name = "env",
                               .type = "object",
                               .doc = "environment variables of the run, over those that it inherits",
                               .fallback = Json::object()};
  const auto read = [=](RunSpec& spec, const Json& json, const std::string& subject,
                        const std::string& where) {
    const Json variables = checked(schema, json, subject, where);
    for (const auto& [name, value] : variables.items()) {
      check_run_variable(name, where);
      const std::string text = checked({.type = "string"}, value, subject + "." + name, where);
      if (text.find('\0') != std::string::npos)
        throw Error(ErrorCode::invalid_value, subject + "." + name + " contains a zero byte",
                    "remove it: an environment variable ends at a zero byte", where);
      spec.environment[name] = text;
    }
  };
  return {schema, read, [](const RunSpec& spec) { return Json(spec.environment); }};
}

Fields<RunSpec>::Field plugins() {
  const OptionSchema schema = {.name = "plugins",
                               .type = "list",
                               .doc = "plugins of the run, each {name, options}",
                               .fallback = Json::array()};
  const auto read = [](RunSpec& spec, const Json& json, const std::string& subject,
                       const std::string& where) {
    if (!json.is_array())
      throw Error(ErrorCode::invalid_value,
                  subject + " must be a list of {name, options}, but is " + shown(json), {}, where);
    for (const auto& use : json) spec.plugins.push_back(plugin_use_from_json(use, where));
  };
  const auto write = [](const RunSpec& spec) {
    Json json = Json::array();
    for (const auto& use : spec.plugins) json.push_back(to_json(use));
    return json;
  };
  return {schema, read, write};
}
}  // namespace

std::string_view to_string(Purpose purpose) { return kPurposes.at(static_cast<size_t>(purpose)); }

const Fields<PluginUse>& plugin_use_fields() {
  using T = PluginUse;
  const OptionSchema options = {.name = "options",
                                .type = "object",
                                .doc = "options of the plugin (optrush plugins NAME)",
                                .fallback = Json::object()};
  static const auto fields =
      Fields<T>()
          .required(&T::name, {.name = "name", .doc = "name of the plugin"})
          .custom({options,
                   [=](T& use, const Json& json, const std::string& subject, const std::string& where) {
                     use.options = checked(options, json, subject, where);
                   },
                   [](const T& use) { return use.options; }});
  return fields;
}

const Fields<RunSpec>& run_spec_fields() {
  using T = RunSpec;
  static const auto fields =
      Fields<T>()
          .custom(schema_version())
          .optional(&T::experiment, {.name = "experiment", .doc = "name of the experiment"})
          .optional(&T::rung, {.name = "rung", .doc = "name of the rung"})
          .optional(&T::purpose, {.name = "purpose",
                                  .doc = "purpose of the run: measurement, correctness gate, or drift",
                                  .choices = {kPurposes.begin(), kPurposes.end()}})
          .optional(&T::variant, {.name = "variant", .doc = "line of the report; 0 is the base", .min = 0})
          .optional(&T::round, {.name = "round", .doc = "round, from 0", .min = 0})
          .optional(&T::model_kind, {.name = "model_kind", .doc = "kind of the model"})
          .custom(model())
          .custom(part(&T::data, data_from_json, {.name = "data", .doc = "training data"}))
          .custom(part(&T::train, train_from_json, {.name = "train", .doc = "the training step"}))
          .custom(
              part(&T::validate, validate_from_json, {.name = "validate", .doc = "loss on held-out data"}))
          .nested(&T::save, save_fields(), {.name = "save", .doc = "saved state, to continue from"})
          .nested(&T::sample, sample_fields(),
                  {.name = "sample", .doc = "prompts that the trained model continues after the last step"})
          .optional(&T::start,
                    {.name = "start",
                     .doc = "folder of a saved state to continue from; empty: start from the initial values"})
          .optional(&T::weights_only,
                    {.name = "weights_only",
                     .doc = "take the weights of `start` alone: optimizer, steps and data begin anew"})
          .custom(plugins())
          .optional(&T::device, {.name = "device",
                                 .doc = "device of the run; auto: a GPU if available",
                                 .choices = {"auto", "cpu", "cuda"}})
          .optional(&T::threads,
                    {.name = "threads",
                     .doc = "CPU threads per operator; 0: OMP_NUM_THREADS, or a rank's share of the cores",
                     .min = 0,
                     .max = 65536})
          .custom(environment())
          .optional(&T::timeout_s,
                    {.name = "timeout_s", .doc = "time limit of the run in seconds", .min = 0.001})
          .optional(&T::plugin_path, {.name = "plugin_path", .doc = "folders to search for plugins first"})
          .optional(
              &T::trace,
              {.name = "trace",
               .doc = "profile one additional step after the timed ones into trace.json beside the result"});
  return fields;
}

PluginUse plugin_use_from_json(const Json& json, const std::string& where) {
  return plugin_use_fields().read(json, "plugin", where);
}
Json to_json(const PluginUse& use) { return plugin_use_fields().write(use); }

bool validates_on_own_data(const RunSpec& spec) {
  return spec.validate.every > 0 && spec.validate.data.kind == ValidateSpec{}.data.kind;
}

int64_t held_out(const RunSpec& spec) {
  return validates_on_own_data(spec) && spec.data.kind != "random" ? spec.validate.sequences : 0;
}

RunSpec run_spec_from_json(const Json& json, const std::string& where) {
  RunSpec spec = run_spec_fields().read(json, "", where);
  rename_old_kind(spec.model_kind, spec.model);
  spec.model = validate_model(spec.model_kind, spec.model, where);
  check_validate(spec, where);
  return spec;
}
Json to_json(const RunSpec& spec) { return run_spec_fields().write(spec); }

RunSpec merged(const RunSpec& base, const Json& settings, const std::string& where) {
  check_keys(settings, kSettings, "setting", "", where);
  Json json = to_json(base);
  if (replaces_data(json, settings)) json["data"] = Json::object();
  if (replaces_model(settings)) json["model"] = Json::object();
  const Json train = settings.value("train", Json::object());
  if (train.is_object() && train.contains("epochs") && train["epochs"] != 0 && !train.contains("steps") &&
      base.train.steps == TrainSpec().steps)
    json["train"]["steps"] = kMostSteps;
  merge(json, settings);
  return run_spec_from_json(json, where);
}
}  // namespace optrush
