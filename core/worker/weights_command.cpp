#include "worker/commands.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "base/files.h"
#include "base/new_folder.h"
#include "base/text.h"
#include "checkpoint/checkpoint_files.h"
#include "checkpoint/hugging_face_model.h"
#include "checkpoint/tokenizer_files.h"
#include "checkpoint/written_config.h"
#include "io/safetensors.h"
#include "io/state_folder.h"
#include "model/binder.h"
#include "model/hugging_face.h"
#include "model/model.h"
#include "optrush/error.h"
#include "plugin/description.h"
#include "recipe/evaluation_scope.h"
#include "results/run_result.h"
#include "spec/spec_json.h"
#include "train/run_setup.h"
#include "train/state.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
const SafetensorsMetadata kOfPyTorch = {{"format", "pt"}};  // transformers reads only files with this entry

/// Copies the files of a checkpoint that training does not change, such as the tokenizer.
void copy_beside_weights(const fs::path& checkpoint, const fs::path& out) {
  std::vector<std::string> names = tokenizer_files();
  names.emplace_back("generation_config.json");
  for (const auto& name : names)
    if (fs::exists(checkpoint / name)) fs::copy(checkpoint / name, out / name, fs::copy_options::recursive);
}

/// The run on one device with only the plugins of these effects.
RunSpec reduced_to(RunSpec spec, const std::set<Effect>& effects) {
  const Catalogue catalogue = Catalogue::find(spec.plugin_path);
  std::erase_if(spec.plugins, [&](const PluginUse& use) {
    return !effects.contains(catalogue.at(use.name).effect_with(use.options));
  });
  spec.train.world_size = 1;
  spec.train.global_batch = 0;
  spec.validate.every = 0;
  return spec;
}

/// Refuses the state of a failed run, which may be older than the user expects.
void check_ended(const fs::path& run, const StateFolder& state) {
  const fs::path file = run / "result.json";
  const auto result =
      is_there(file) ? std::optional(run_result_from_json(read_json(file), file.string())) : std::nullopt;
  if (result && result->ok()) return;
  throw Error(ErrorCode::missing_file,
              "the run '" + run.string() + "' " +
                  (result ? "is " + std::string(to_string(result->status)) + ": " + first_line(result->reason)
                          : "has no result: it was interrupted or is still running") +
                  ". Its last saved state is from step " + std::to_string(state.step()),
              "to write that state, give its folder: optrush weights " + (run / "state").string() + " OUT");
}

/// The forms in which the run computed with its frozen parameters: their type, and the codec of a plugin that
/// stores them in fewer bits.
class FrozenForms {
 public:
  explicit FrozenForms(const RunSpec& spec) {
    try {
      declare(reduced_to(spec, {Effect::model, Effect::precision}));
    } catch (const Skip& e) {
      std::cerr << "warning: cannot check whether frozen matrices were quantized (" << e.message()
                << "): they are written as the run read them\n";
      declare(reduced_to(spec, {Effect::model}));
    }
  }

  bool quantized() const {
    return std::ranges::any_of(forms_, [](const auto& form) { return form.second->codec != nullptr; });
  }
  /// Sets the frozen parameters of `session` to the values that the run computed with.
  void apply(Session& session) const {
    const at::NoGradGuard no_grad;
    for (Param* param : session.params().all()) {
      const auto form = forms_.find(param->name);
      if (form == forms_.end()) continue;
      const Param& kept = *form->second;
      Tensor value = param->leaf.to(kept.dtype);
      if (kept.codec) value = kept.codec->decode(kept.codec->encode(value), param->shape);
      param->leaf.copy_(value);
    }
  }

 private:
  void declare(const RunSpec& spec) {
    session_ = RunSetup::open(spec, at::kCPU);
    session_->declare();
    for (Param* param : session_->params().all())
      if (!param->trainable) forms_[param->name] = param;
  }

  std::unique_ptr<RunSetup> session_;  // owns the plugins with the codecs
  std::map<std::string, const Param*> forms_;
};

/// The names of the model's parameters without plugins.
std::set<std::string> own_parameters(RunSpec spec) {
  spec.plugins.clear();
  spec.data = {};  // some kinds of data require plugins
  const auto plain = RunSetup::open(spec, at::kCPU);
  plain->declare();
  std::set<std::string> names;
  for (const Param* param : plain->params().all()) names.insert(param->name);
  return names;
}

/// Whether the state has one of these parameters.
bool has_any(const StateFolder& state, const std::set<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return state.contains("model/" + name); });
}

/// The session whose parameters have the values of the state, with all bits that it stores, and those of the
/// frozen parameters. Its type is at least fp32, so that a merged matrix is a sum in this type.
std::unique_ptr<RunSetup> session_of(RunSpec spec, const fs::path& state, const FrozenForms& frozen,
                                     const std::string& dtype) {
  if (spec.train.dtype != "fp64") spec.train.dtype = "fp32";
  auto session = RunSetup::open(spec, at::kCPU);
  session->connect();
  session->declare();
  session->make_ready();
  frozen.apply(*session);
  const at::NoGradGuard no_grad;
  const SavedParameters saved(state, session->params());
  for (Param* param : session->params().all()) {
    if (const Tensor value = saved.find(*param); value.defined()) param->leaf.copy_(value);
    if (dtype != "fp64") continue;  // initial values are drawn in the type of the training
    param->dtype = at::kDouble;
    param->leaf = param->leaf.detach().to(at::kDouble);
  }
  return session;
}

/// The matrix with what plugins added: the output of the operator for the identity matrix.
Tensor merged_matrix(const Binder& bind, const Module& module) {
  const Param& weight = *module.params.at(0);
  return bind.product(module)(at::eye(weight.shape.at(1), weight.dtype)).t();
}

/// The model's parameters, with the matrices of adapters merged. A tied matrix with an adapter becomes a
/// separate parameter of its module.
NamedTensors model_weights(Session& session, const std::set<std::string>& own) {
  const EvaluationScope evaluation;
  const Binder bind(session.recipe());
  std::map<std::string, Tensor> weights;
  for (const Param* param : session.params().all())
    if (own.contains(param->name)) weights[param->name] = param->value();
  for (const Module* module : session.modules("linear")) {
    const size_t plain = module->bias() == nullptr ? 1 : 2;
    if (module->params.size() > plain) weights[module->path + ".weight"] = merged_matrix(bind, *module);
  }
  return {weights.begin(), weights.end()};
}

void write_weights(const fs::path& file, NamedTensors weights, at::ScalarType dtype, const Storage& storage) {
  for (auto& [name, tensor] : weights) {
    tensor = stored_value(name, tensor, storage).to(dtype);
    name = stored_name(name, storage.names);
  }
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
    config = config_of_checkpoint(checkpoint);
  const Storage storage = storage_of(config);
  NamedTensors weights = model_weights(session, own);
  if (weights.size() > own.size()) config["tie_word_embeddings"] = false;
  write_json(out / "config.json", with_dtype(std::move(config), dtype));
  if (!checkpoint.empty()) copy_beside_weights(checkpoint, out);
  write_weights(out / "model.safetensors", std::move(weights), parse_dtype(dtype), storage);
}

void write_adapter(const Session& session, const std::set<std::string>& own, const std::string& dtype,
                   const fs::path& out) {
  Json config = session.recipe().description("peft");
  if (config.is_null())
    throw Error(ErrorCode::unsupported,
                "the plugin that adds parameters does not describe them for other programs",
                "write the whole model: --merge");
  const std::string& checkpoint = session.model().checkpoint;
  const Storage storage =
      checkpoint.empty() ? storage_of(llama_of(session.spec())) : read_hugging_face_model(checkpoint).storage;
  config["base_model_name_or_path"] = checkpoint;
  for (auto& target : config.at("target_modules")) {
    const std::string inside = "experts.";  // linears of attention have the same name everywhere
    target = stored_name(inside + target.get<std::string>(), storage.names).substr(inside.size());
  }
  write_json(out / "adapter_config.json", config);
  NamedTensors weights;
  bool of_experts = false;
  for (const Param* param : session.params().all()) {
    if (own.contains(param->name)) continue;
    weights.emplace_back("base_model.model." + param->name, param->value());
    of_experts = of_experts || param->name.find(".experts.") != std::string::npos;
  }
  write_weights(out / "adapter_model.safetensors", std::move(weights), parse_dtype(dtype),
                {.names = storage.names});
  if (of_experts && storage.expert_adapters_need_4)
    std::cout
        << "warning: PEFT 0.21 with transformers 5 leaves out the adapters of this model's experts: load "
           "it with transformers 4, or write the whole model with --merge\n";
}
}  // namespace

int weights_command(const WeightsRequest& request) {
  const bool of_state = is_there(request.run / "state.json");
  const fs::path folder = of_state ? request.run : request.run / "state";
  const fs::path run = fs::absolute(folder).lexically_normal().parent_path();
  const StateFolder state(folder);
  if (!of_state) check_ended(run, state);
  const RunSpec whole = run_spec_from_json(read_json(run / "spec.json"), run / "spec.json");
  RunSpec spec = reduced_to(whole, {Effect::model});
  if (spec.model_kind != "llama")
    throw Error(ErrorCode::unsupported,
                "a model of kind '" + spec.model_kind + "' cannot be written as a Hugging Face folder");
  NewFolder out(request.out);
  const auto own = own_parameters(spec);
  // Frozen parameters may be those of the state from which the run began.
  if (std::ranges::all_of(own, [&](const std::string& name) { return has_any(state, {name}); }))
    spec.start.clear();
  const FrozenForms frozen(whole);
  const std::string dtype = request.dtype.empty() ? spec.train.dtype : request.dtype;
  const auto session = session_of(spec, folder, frozen, dtype);
  const bool adapted = std::ranges::any_of(std::as_const(*session).params().all(),
                                           [&](const Param* param) { return !own.contains(param->name); });
  const bool alone = adapted && !request.merge;
  if (alone)
    write_adapter(*session, own, dtype, out.path());
  else
    write_model(*session, own, dtype, out.path());
  out.put_in_place();
  std::cout << (alone ? "the adapter" : "the model") << " as it was after " << state.step() << " steps, in "
            << request.out.string() << "\n";
  if (alone && !spec.start.empty() && has_any(StateFolder(spec.start), own))
    std::cout << "Its base has the weights of the state in '" << spec.start
              << "': write the whole model with --merge\n";
  if (frozen.quantized())
    std::cout << (alone ? "It was trained with quantized frozen matrices: load the base with the same "
                          "quantization, or write the whole model with --merge\n"
                        : "Its frozen matrices are written with the quantized values of the training\n");
  return 0;
}
}  // namespace optrush
