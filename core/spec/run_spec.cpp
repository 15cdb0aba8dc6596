#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include "base/contains.h"
#include "optrush/error.h"
#include "optrush/json.h"
#include "spec/model_kinds.h"
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
void check_run_variable(const std::string& name) {
  if (!is_variable(name))
    throw Error(ErrorCode::invalid_value,
                "env: " + shown(Json(name)) + " is not a valid name of an environment variable",
                "use letters, digits and '_', and do not start with a digit");
  const auto refuse = [&](const std::string& why, const std::string& cure) {
    throw Error(ErrorCode::invalid_value, "env: a run can't set " + name + ": it " + why, cure);
  };
  if (name.starts_with("OPTRUSH_")) refuse("belongs to optrush itself", "set it for optrush itself");
  for (const auto& some : owned())
    if (contains(some.names, name)) refuse(some.why, some.cure);
}

constexpr int kSchemaVersion = 1;
const OptionSchema kVersionOption = {.type = "integer", .min = kSchemaVersion, .max = kSchemaVersion};
constexpr std::array<std::string_view, 5> kPurposes = {"measure", "probe", "reference", "repeat", "drift"};
static_assert(kPurposes.size() == static_cast<size_t>(Purpose::drift) + 1);

/// Fields that a rung may change. The controller sets the others.
const std::vector<std::string> kSettings = {"model_kind", "model",   "data", "train",
                                            "device",     "threads", "env",  "timeout_s"};

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

void check_environment(const RunSpec& spec) {
  for (const auto& [name, text] : spec.environment) {
    check_run_variable(name);
    if (text.find('\0') != std::string::npos)
      throw Error(ErrorCode::invalid_value, "env." + name + " contains a zero byte",
                  "remove it: an environment variable ends at a zero byte");
  }
}

void check_parts(const RunSpec& spec) {
  if (spec.train.epochs > 0 && spec.data.kind == "random")
    throw Error(ErrorCode::conflict,
                "train.epochs is " + std::to_string(spec.train.epochs) + ", but random data has no end",
                "give data from a file, or train.steps only");
  if (!spec.sample.prompts.empty() && spec.model_kind != "llama")
    throw Error(ErrorCode::unsupported,
                "sample: a model of kind '" + spec.model_kind + "' cannot continue text",
                "leave out sample, or train a Llama");
  if (spec.validate.every == 0) return;
  if (spec.model_kind != "llama")
    throw Error(ErrorCode::unsupported,
                "validate: a model of kind '" + spec.model_kind + "' does not train on tokens",
                "leave validate out, or train a Llama");
  if (!validates_on_own_data(spec) && spec.data.kind != "random" &&
      to_json(spec.validate.data) == to_json(spec.data))
    throw Error(ErrorCode::invalid_value, "validate.data is the training data",
                "leave it out to hold out the end of the data");
}
}  // namespace

std::string_view to_string(Purpose purpose) { return kPurposes.at(static_cast<size_t>(purpose)); }

Record<PluginUse> record_of(const PluginUse*) {
  return Record<PluginUse>::given("plugin")
      .field("name", &PluginUse::name, "name of the plugin", {.required = true})
      .field("options", &PluginUse::options, "options of the plugin (optrush plugins NAME)",
             {.type = "object"});
}

Record<RunSpec> record_of(const RunSpec*) {
  using T = RunSpec;
  return Record<T>::given("")
      .custom(
          "schema_version",
          {.doc = "version of this format", .type = "integer", .min = kSchemaVersion, .max = kSchemaVersion},
          [](T&, const Json& json) {
            record::checked(json, {kVersionOption, "schema_version", true});
          },
          [](const T&) { return Json(kSchemaVersion); })
      .field("experiment", &T::experiment, "name of the experiment")
      .field("rung", &T::rung, "name of the rung")
      .field("purpose", &T::purpose, "purpose of the run: measurement, correctness gate, or drift",
             {.choices = {kPurposes.begin(), kPurposes.end()}})
      .field("variant", &T::variant, "line of the report; 0 is the base", {.min = 0})
      .field("round", &T::round, "round, from 0", {.min = 0})
      .field("model_kind", &T::model_kind, "kind of the model")
      // Checked at the end, because model_kind may follow.
      .field("model", &T::model, "fields of the model kind", {.type = "object"})
      .field("data", &T::data, "training data")
      .field("train", &T::train, "the training step")
      .field("validate", &T::validate, "loss on held-out data")
      .field("save", &T::save, "saved state, to continue from")
      .field("sample", &T::sample, "prompts that the trained model continues after the last step")
      .field("start", &T::start,
             "folder of a saved state to continue from; empty: start from the initial values")
      .field("weights_only", &T::weights_only,
             "take the weights of `start` alone: optimizer, steps and data begin anew")
      .field("plugins", &T::plugins, "plugins of the run, each {name, options}")
      .field("device", &T::device, "device of the run; auto: a GPU if available",
             {.choices = {"auto", "cpu", "cuda"}})
      .field("threads", &T::threads,
             "CPU threads per operator; 0: OMP_NUM_THREADS, or a rank's share of the cores",
             {.min = 0, .max = 65536})
      .field("env", &T::environment, "environment variables of the run, over those that it inherits")
      .field("timeout_s", &T::timeout_s, "time limit of the run in seconds", {.min = 0.001})
      .field("plugin_path", &T::plugin_path, "folders to search for plugins first")
      .field("trace", &T::trace,
             "profile one additional step after the timed ones into trace.json beside the result")
      .then([](T& spec) {
        rename_old_kind(spec.model_kind, spec.model);
        spec.model = validate_model(spec.model_kind, spec.model, {});
        check_environment(spec);
        check_parts(spec);
      });
}

bool validates_on_own_data(const RunSpec& spec) {
  return spec.validate.every > 0 && spec.validate.data.kind == ValidateSpec{}.data.kind;
}

int64_t held_out(const RunSpec& spec) {
  return validates_on_own_data(spec) && spec.data.kind != "random" ? spec.validate.sequences : 0;
}

RunSpec run_spec_from_json(const Json& json, const std::string& where) {
  return fields_of<RunSpec>().read(json, where);
}

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
