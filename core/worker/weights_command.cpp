#include "worker/weights_command.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "base/files.h"
#include "base/spec_json.h"
#include "io/safetensors.h"
#include "io/state_folder.h"
#include "model/binder.h"
#include "model/hugging_face.h"
#include "optrush/error.h"
#include "plugin/description.h"
#include "recipe/evaluation_scope.h"
#include "train/session.h"
#include "train/state.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
constexpr const char* kModelKey = "model/";
const SafetensorsMetadata kOfPyTorch = {{"format", "pt"}};  // transformers reads no other files

/// What goes with the weights of a checkpoint and does not change with them.
constexpr const char* kBesideWeights[] = {
    "tokenizer.json", "tokenizer.model",   "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
    "merges.txt",     "added_tokens.json", "chat_template.jinja",   "generation_config.json"};

/// The run on one device, by the plugins alone that change which function is trained.
RunSpec function_of(RunSpec spec) {
  const Catalogue catalogue = Catalogue::find(spec.plugin_path);
  std::erase_if(spec.plugins, [&](const PluginUse& use) {
    return catalogue.at(use.name).effect_with(use.options) != Effect::model;
  });
  spec.train.world_size = 1;
  spec.train.global_batch = 0;
  spec.validate.every = 0;
  return spec;
}

/// The names of the model's own parameters.
std::set<std::string> own_parameters(RunSpec spec) {
  spec.plugins.clear();
  spec.data = {};  // some data asks for plugins
  const auto plain = Session::open(spec, at::kCPU);
  plain->declare();
  std::set<std::string> names;
  for (const Param* param : plain->params().all()) names.insert(param->name);
  return names;
}

/// A plugin that trains parameters of its own may change another thing than the function alone.
void check_all_known(const StateFolder& state, const Params& params, const fs::path& folder) {
  for (const auto& key : state.keys())
    if (key.starts_with(kModelKey) && !params.contains(key.substr(std::string_view(kModelKey).size())))
      throw Error("the state has '" + key + "', and the run's model and its plugins no such parameter",
                  "are the plugins those that it was trained with?", folder.string());
}

/// With what plugins have added to it: what the operator multiplies with is its value at the identity.
Tensor merged_matrix(const Binder& bind, const Site& site) {
  const Param& weight = *site.params.at(0);
  return bind.linear(site)(at::eye(weight.shape.at(1), weight.dtype)).t();
}

NamedTensors model_weights(Session& session, const std::set<std::string>& own) {
  const EvaluationScope evaluation;
  const Binder bind(session.recipe());
  std::map<std::string, Tensor> merged;
  for (const Site* site : session.sites("linear")) {
    if (site->params.size() == 1) continue;
    const std::string& name = site->params.front()->name;
    if (name != site->path + ".weight")
      throw Error("'" + site->path + "' has an adapter, and shares '" + name + "' with another use of it",
                  "write the adapter alone: leave --merge out");
    merged[name] = merged_matrix(bind, *site);
  }
  NamedTensors weights;
  for (const Param* param : session.params().all())
    if (own.contains(param->name))
      weights.emplace_back(param->name,
                           merged.contains(param->name) ? merged.at(param->name) : param->value());
  return weights;
}

void write_weights(const fs::path& file, NamedTensors weights, at::ScalarType dtype) {
  for (auto& [name, tensor] : weights) tensor = tensor.to(dtype);
  write_safetensors(file, std::move(weights), kOfPyTorch);
}

void write_model(Session& session, const std::set<std::string>& own, const std::string& dtype,
                 const fs::path& out) {
  const std::string& checkpoint = session.model().checkpoint;
  const RunSpec& spec = session.spec();
  Json config;
  if (checkpoint.empty())
    config = hugging_face_config(llama_of(spec), spec.train.seq_len);
  else
    config = read_json(fs::path(checkpoint) / "config.json");
  const std::map<std::string, std::string> names = {
      {"fp32", "float32"}, {"fp64", "float64"}, {"bf16", "bfloat16"}};
  config["torch_dtype"] = names.at(dtype);
  write_json(out / "config.json", config);
  if (!checkpoint.empty())
    for (const char* name : kBesideWeights)
      if (const fs::path file = fs::path(checkpoint) / name; fs::is_regular_file(file))
        fs::copy_file(file, out / name);
  write_weights(out / "model.safetensors", model_weights(session, own), parse_dtype(dtype));
}

void write_adapter(const Session& session, const std::set<std::string>& own, const std::string& dtype,
                   const fs::path& out) {
  Json config = session.recipe().adapter();
  if (config.is_null())
    throw Error("the plugin that trains parameters of its own does not say how other programs read them",
                "write the whole model: --merge");
  config["base_model_name_or_path"] = session.model().checkpoint;
  write_json(out / "adapter_config.json", config);
  NamedTensors weights;
  for (const Param* param : session.params().all())
    if (!own.contains(param->name)) weights.emplace_back("base_model.model." + param->name, param->value());
  write_weights(out / "adapter_model.safetensors", std::move(weights), parse_dtype(dtype));
}

void check_empty(const fs::path& out) {
  if (fs::exists(out) && (!fs::is_directory(out) || !fs::is_empty(out)))
    throw Error("'" + out.string() + "' is there already", "give the name of a new folder");
}
}  // namespace

int weights_command(const WeightsRequest& request) {
  const bool of_state = is_there(request.run / "state.json");
  const fs::path folder = of_state ? request.run : request.run / "state";
  const fs::path run = fs::absolute(folder).lexically_normal().parent_path();
  const StateFolder state(folder);
  const RunSpec spec = function_of(run_spec_from_json(read_json(run / "spec.json"), run / "spec.json"));
  if (spec.model_kind != "llama")
    throw Error("a model of kind '" + spec.model_kind + "' has no Hugging Face form");
  check_empty(request.out);
  const auto own = own_parameters(spec);
  const auto session = Session::open(spec, at::kCPU);
  session->connect();
  session->declare();
  session->make_ready();
  check_all_known(state, session->params(), folder);
  load_parameters(*session, [&](const std::string& key) { return state.read(key); });
  const std::string dtype = request.dtype.empty() ? spec.train.dtype : request.dtype;
  const bool adapted = std::ranges::any_of(std::as_const(*session).params().all(),
                                           [&](const Param* param) { return !own.contains(param->name); });
  fs::create_directories(request.out);
  if (adapted && !request.merge)
    write_adapter(*session, own, dtype, request.out);
  else
    write_model(*session, own, dtype, request.out);
  std::cout << (adapted && !request.merge ? "the adapter" : "the model") << " as it was after "
            << state.step() << " steps, in " << request.out.string() << "\n";
  return 0;
}
}  // namespace optrush
