#include "exchange/exchange.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "base/files.h"
#include "base/text.h"
#include "checkpoint/checkpoint_files.h"
#include "checkpoint/tokenizer_files.h"
#include "checkpoint/written_config.h"
#include "io/state_folder.h"
#include "model/model.h"
#include "new_folder.h"
#include "optrush/error.h"
#include "results/run_result.h"
#include "results/saved_states.h"
#include "spec/spec_json.h"
#include "train/state.h"
#include "worker/exported_weights.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// Copies the files of a checkpoint that training does not change, such as the tokenizer.
void copy_beside_weights(const fs::path& checkpoint, const fs::path& out) {
  std::vector<std::string> names = tokenizer_files();
  names.emplace_back("generation_config.json");
  for (const auto& name : names)
    if (fs::exists(checkpoint / name)) fs::copy(checkpoint / name, out / name, fs::copy_options::recursive);
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

/// Whether the state has one of these parameters.
bool has_any(const StateFolder& state, const std::set<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return state.contains("model/" + name); });
}

/// The session whose parameters have the values of the state, with all bits that it stores, and those of the
/// frozen parameters.
std::unique_ptr<RunSetup> session_of(const RunSpec& spec, const fs::path& state, const FrozenForms& frozen,
                                     const std::string& dtype) {
  auto session = session_to_export(spec, at::kCPU);
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

void write_model(Session& session, const std::set<std::string>& own, const std::string& dtype,
                 const fs::path& out) {
  const std::string& checkpoint = session.model().checkpoint;
  const RunSpec& spec = session.spec();
  Json config;
  if (checkpoint.empty())
    config = hugging_face_config(llama_of(spec), spec.train.seq_len);
  else
    config = config_of_checkpoint(checkpoint);
  NamedTensors weights = model_weights(session, own);
  if (weights.size() > own.size()) config["tie_word_embeddings"] = false;
  write_json(out / "config.json", with_dtype(std::move(config), dtype));
  if (!checkpoint.empty()) copy_beside_weights(checkpoint, out);
  weights_content(std::move(weights), dtype, storage_of(llama_of(spec))).write(out / "model.safetensors");
}

/// The tensor of the class that holds the matrix of a linear with this name; null: the matrix is stored
/// alone.
const JoinedTensor* joined_with(const std::string& linear, const Storage& storage) {
  const std::string end = "." + linear + ".weight";
  const auto found = std::ranges::find_if(storage.joined, [&](const JoinedTensor& joined) {
    return std::ranges::any_of(joined.parts,
                               [&](const std::string& part) { return ("." + part).ends_with(end); });
  });
  return found == storage.joined.end() ? nullptr : &*found;
}

/// The names of modules in a list, or as the keys of an object, by which a class of transformers has them.
Json stored_modules(const Json& named, const Storage& storage) {
  const auto stored = [&](const std::string& name) {
    if (const JoinedTensor* joined = joined_with(name, storage))
      throw Error(ErrorCode::unsupported,
                  "PEFT has no adapter for '" + name +
                      "' of this model's class, which stores it as a part of '" + joined->name + "'",
                  "write the whole model: --merge");
    const std::string inside = "experts.";  // linears of attention have the same name everywhere
    return stored_name(inside + name, storage.names).substr(inside.size());
  };
  Json result = named;
  if (named.is_array())
    for (Json& name : result) name = stored(name);
  if (!named.is_object()) return result;
  result = Json::object();
  for (const auto& [name, value] : named.items()) result[stored(name)] = value;
  return result;
}

void write_adapter(const Session& session, const std::set<std::string>& own, const std::string& dtype,
                   const fs::path& out) {
  Json config = session.recipe().description("peft");
  if (config.is_null())
    throw Error(ErrorCode::unsupported,
                "the plugin that adds parameters does not describe them for other programs",
                "write the whole model: --merge");
  const Storage storage = storage_of(llama_of(session.spec()));
  if (storage.names == ParameterNames::nemotron_h)
    throw Error(ErrorCode::unsupported,
                "adapters of this model's class, whose layers have other numbers, are not written alone",
                "write the whole model: --merge");
  config["base_model_name_or_path"] = session.model().checkpoint;
  for (const char* names : {"target_modules", "modules_to_save", "rank_pattern", "alpha_pattern"})
    config[names] = stored_modules(config.value(names, Json()), storage);
  write_json(out / "adapter_config.json", config);
  NamedTensors weights = adapter_weights(session, own);
  const bool of_experts = std::ranges::any_of(
      weights, [](const auto& named) { return named.first.find(".experts.") != std::string::npos; });
  weights_content(std::move(weights), dtype, storage).write(out / "adapter_model.safetensors");
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
  if (!is_there(folder / "state.json")) throw without_state(request.run);
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
  const bool alone = has_adapter(*session, own) && !request.merge;
  if (alone)
    write_adapter(*session, own, dtype, out.path());
  else
    write_model(*session, own, dtype, out.path());
  out.put_in_place();
  std::cout << (alone ? "the adapter" : "the model") << " as it was after " << state.step() << " steps, in "
            << request.out.string() << "\n";
  std::set<std::string> frozen_names;
  for (const Param* param : std::as_const(*session).params().all())
    if (!param->trainable) frozen_names.insert(param->name);
  if (alone && !spec.start.empty() && has_any(StateFolder(spec.start), frozen_names))
    std::cout << "Its base has the weights of the state in '" << spec.start
              << "': write the whole model with --merge\n";
  if (frozen.quantized())
    std::cout << (alone ? "It was trained with quantized frozen matrices: load the base with the same "
                          "quantization, or write the whole model with --merge\n"
                        : "Its frozen matrices are written with the quantized values of the training\n");
  return 0;
}
}  // namespace optrush
