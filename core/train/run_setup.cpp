#include "train/run_setup.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/contains.h"
#include "base/files.h"
#include "base/text.h"
#include "build_info.h"
#include "checkpoint/check_checkpoint.h"
#include "checkpoint/written_config.h"
#include "data/batches.h"
#include "distributed/rendezvous.h"
#include "measure/wait_for.h"
#include "model/binder.h"
#include "model/hugging_face.h"
#include "optrush/advanced/initial_value.h"
#include "optrush/forecast.h"
#include "optrush/host/resolve.h"
#include "params/init.h"
#include "params/upload.h"
#include "plugin/loader.h"
#include "spec/spec_json.h"
#include "train/plain.h"
#include "train/state.h"
#include "train/validation.h"

namespace optrush {
namespace {
/// Plugins that fill `data_parallel`, for a message.
std::vector<std::string> data_parallel_plugins(const RunSpec& spec) {
  std::vector<std::string> names;
  const Catalogue catalogue = Catalogue::find(spec.plugin_path);
  for (const auto& plugin : catalogue.plugins()) {
    if (plugin.kind != "parallelism") continue;
    RunSpec alone = spec;
    alone.plugins = {{.name = plugin.name}};
    try {
      auto loaded = load_plugins(alone, catalogue);
      RunRecipe recipe(alone);
      apply_plugins(loaded, recipe);
      if (recipe.data_parallel.base().plugin == plugin.name) names.push_back(plugin.name);
    } catch (const Error&) {  // a requirement of the plugin is missing
    }
  }
  return names;
}

std::unique_ptr<DataParallel> default_data_parallel(Run& run) {
  const int64_t ranks = run.mesh().size(run.mesh().data());
  if (ranks > 1) {
    const auto names = data_parallel_plugins(run.spec());
    throw Error(ErrorCode::wrong_ranks,
                "train.world_size gives " + std::to_string(ranks) +
                    " data-parallel ranks, but no stacked plugin synchronizes them",
                (names.empty() ? "stack a plugin for data parallelism" : "stack " + join(names, " or ")) +
                    ", or leave train.world_size at 1");
  }
  return make_single_device(run);
}

/// What the ranks of a run must agree on before they connect.
std::string identity_of(const RunSpec& spec) {
  return "OptRush " OPTRUSH_VERSION ", spec " + sha256(to_json(spec).dump()).substr(0, 12);
}

std::unique_ptr<Optimizer> default_optimizer(Run& run, std::span<Shard> shards) {
  return make_adamw(run.spec().train, shards);
}

/// The plugins that wrap `linear` as an adapter, for a message: "plugin 'a'", "plugins 'a' and 'b'".
std::string adapters_of(const Recipe& recipe) {
  std::vector<std::string> names;
  for (const Edit& wrap : recipe.ops.linear.wraps())
    if (wrap.phase == Phase::adapter) names.push_back("'" + wrap.plugin + "'");
  return names.empty() ? "a plugin" : (names.size() == 1 ? "plugin " : "plugins ") + join(names, " and ");
}

/// Refuses bases that would drop adapters. Some operators use the matrices of linears: `mlp` those of gate,
/// up and down, `head_loss` that of lm_head. A base of such an operator that multiplies with these matrices
/// itself would ignore what an adapter added to the linears, so the run would train another model than its
/// script states. Only a base that offers feature::adapters is allowed.
class LostAdapters {
 public:
  /// Called before plugins add parameters.
  explicit LostAdapters(const Run& run) : run_(run) {
    for (const Module* module : run.modules("linear")) declared_.emplace_back(module, module->params.size());
  }
  /// Called after that. Throws an Error that names the base, the adapters and the parameter.
  void refuse(const Recipe& recipe) const {
    refuse(recipe.ops.mlp, "mlp", recipe);
    refuse(recipe.ops.head_loss, "head_loss", recipe);
  }

 private:
  void refuse(const SlotInfo& slot, const std::string& role, const Recipe& recipe) const {
    const Edit& base = slot.base();
    if (base.plugin == "plain" || base.traits.has(feature::adapters)) return;
    for (const Module* module : run_.modules(role)) {
      for (const auto& [linear, own] : declared_) {
        const Param* matrix = linear->params.at(0);
        if (linear->params.size() == own || !contains(module->params, matrix)) continue;
        throw Error(ErrorCode::conflict,
                    "plugin '" + base.plugin + "' replaces " + slot.name() + " and would ignore '" +
                        linear->params[own]->name + "', which " + adapters_of(recipe) + " added to " +
                        linear->path + ": it does not offer 'adapters'",
                    "remove '" + linear->path + "' from the adapter's targets, or '" + base.plugin +
                        "' from the stack");
      }
    }
  }

  const Run& run_;
  /// Each linear with the number of parameters that the model gave it
  std::vector<std::pair<const Module*, size_t>> declared_;
};
}  // namespace

at::ScalarType parse_dtype(const std::string& name) {
  if (name == "fp32") return at::kFloat;
  if (name == "fp64") return at::kDouble;
  if (name == "bf16") return at::kBFloat16;
  throw Error(ErrorCode::unknown_name, "unknown dtype '" + name + "'", "one of: bf16, fp32, fp64");
}

// Not in session.cpp: a step needs neither the loader nor the engine of saved tensors.
Session::Session(std::vector<LoadedPlugin> plugins, const RunSpec& spec, at::Device device, Ranks ranks)
    : plugins_(std::move(plugins)), recipe_(spec), ranks_(std::move(ranks)), device_(device) {
  use_saved_tensor_engine();
}

Session::~Session() = default;

std::unique_ptr<RunSetup> RunSetup::open(const RunSpec& spec, at::Device device, const Ranks& ranks,
                                         const std::function<void(RunRecipe&)>& edit) {
  return open(spec, Catalogue::of(spec), device, ranks, edit);
}

std::unique_ptr<RunSetup> RunSetup::open(const RunSpec& spec, const Catalogue& catalogue, at::Device device,
                                         const Ranks& ranks, const std::function<void(RunRecipe&)>& edit) {
  if (spec.train.world_size != ranks.size)
    throw Error(ErrorCode::wrong_ranks, "train.world_size is " + std::to_string(spec.train.world_size) +
                                            ", but the run has " + std::to_string(ranks.size) +
                                            (ranks.size == 1 ? " process" : " processes"));
  std::unique_ptr<RunSetup> setup(new RunSetup(load_plugins(spec, catalogue), spec, device, ranks));
  RunRecipe& recipe = setup->recipe_;
  apply_plugins(setup->plugins_, recipe);
  recipe.edit_as("model");
  edit_for_model(spec, recipe);
  recipe.edit_as("host");
  if (edit) edit(recipe);
  recipe.seal();
  recipe.check();
  if (!recipe.learns_from(spec.data.kind)) refuse_data_without_loss(spec.data);
  if (spec.validate.every > 0) Validation::check(recipe);
  recipe.run_mesh().settle(ranks.rank, ranks.size);
  if (ranks.size == 1 || ranks.alone) recipe.run_mesh().groups().connect(ranks, nullptr, device);
  return setup;
}

void RunSetup::connect() {
  if (!recipe_.run_mesh().groups().connected()) {
    store_ = rendezvous(ranks_, identity_of(recipe_.spec()));
    ranks_.sharing = ranks_of_one_gpu(*store_, ranks_);
    if (ranks_.sharing > 1) {
      let_ranks_share_a_gpu(ranks_);
      note(std::to_string(ranks_.sharing) +
           " ranks share one GPU: losses and memory are measured, speeds are not");
    }
    recipe_.run_mesh().groups().connect(ranks_, store_, device_);
  }
  recipe_.fire(Event::mesh_initialized, *this);
}

void RunSetup::declare() {
  model_ = declare_model(spec(), params_, parse_dtype(spec().train.dtype));
  const LostAdapters adapters(*this);
  recipe_.fire(Event::meta_initialized, *this);
  adapters.refuse(recipe_);
  check_adapters(params_);
  if (!model_.checkpoint.empty()) {
    Checkpoint(model_.checkpoint).check_known(params_);
    const auto stored = read_hugging_face_model(model_.checkpoint);
    check_sequence_length(spec(), stored, {});
    for (const std::string& warning : warnings_of_checkpoint(spec(), stored)) note(warning);
  }
  if (const auto warning = unwritable(spec())) note(*warning);
  choose_units();
  data_parallel_ = recipe_.data_parallel.resolve({}, default_data_parallel)(*this);
}

void RunSetup::choose_units() {
  const auto all_in_one = [](Run& run) {
    std::vector<Unit*> units;
    for (const auto& unit : run.units()) units.push_back(unit.get());
    return std::vector<std::vector<Unit*>>{units};
  };
  chunks_ = recipe_.stages.resolve({}, all_in_one)(*this);
  std::vector<Param*> kept;
  for (const auto& chunk : chunks_)
    for (const Unit* unit : chunk) std::ranges::move(unit->params(), std::back_inserter(kept));
  params_.keep_only(kept);
}

void RunSetup::place() {
  std::optional<Checkpoint> checkpoint;
  if (!model_.checkpoint.empty()) checkpoint.emplace(model_.checkpoint);
  std::optional<SavedParameters> start;
  if (!spec().start.empty() && !is_forecast(device_)) start.emplace(spec().start, params_);
  std::map<std::string, Checkpoint> adapters;
  PartTimes& times = log().setup_times();
  const std::function<Tensor(const Param&)> full_value = [&](const Param& param) {
    if (start)
      if (const Tensor saved = times.time("values of the state", [&] { return start->find(param); });
          saved.defined())
        return saved;
    const Checkpoint* stored = checkpoint && checkpoint->contains(param.name) ? &*checkpoint : nullptr;
    if (is_forecast(device_)) {
      const at::ScalarType type = stored == nullptr ? drawn_type(param) : param.dtype;
      return at::empty(param.shape, at::TensorOptions(type).device(at::kMeta));
    }
    if (const auto* there = param.init.target<FromFolder>())
      stored =
          &adapters.try_emplace(there->folder, there->folder, storage_of(llama_of(spec()))).first->second;
    if (stored != nullptr) return times.time("values of the checkpoint", [&] { return stored->read(param); });
    if (const auto* computed = param.init.target<FromParameter>(); computed != nullptr && computes_)
      return computed->make(full_value(*computed->source));
    return times.time("initial values",
                      [&] { return computes_ ? initial_value(param, spec().train.seed) : no_value(param); });
  };
  const at::NoGradGuard no_grad;
  if (device_.is_cuda()) start_gpu();
  Upload upload(device_, times);
  for (Param* param : params_.all()) {
    const Tensor whole = full_value(*param);
    const Tensor uncut =
        times.time("parameters to the device", [&] { return upload(param->layout.take(whole)); });
    times.time("parameters stored", [&] {
      if (param->on_materialize) param->on_materialize(uncut);
      Tensor local = uncut.to(param->dtype).contiguous();
      // A view must not keep the memory of the whole parameter.
      if (local.storage().nbytes() > local.nbytes()) local = local.clone();
      data_parallel_->store(*param, param->codec ? param->codec->encode(local) : Tensors{local});
    });
  }
  if (device_.is_cuda()) times.time("waits for the parameters", [&] { wait_for(device_); });
  times.time("plugins, parameters there", [&] { recipe_.fire(Event::materialized, *this); });
}

/// Starts CUDA first, so that its start-up time does not count for another part of the set-up.
void RunSetup::start_gpu() {
  PartTimes& times = log().setup_times();
  const auto options = at::TensorOptions(at::kFloat).device(device_);
  const Tensor some = times.time("first memory on the GPU", [&] { return at::empty({1}, options); });
  times.time("first kernel on the GPU", [&] {
    some.fill_(1);
    wait_for(device_);
  });
}

void RunSetup::make_ready() {
  place();
  const Binder bind(recipe_);
  const auto number_of = [&](const Unit* unit) {
    return static_cast<uint64_t>(
        std::ranges::find_if(model_.units, [&](const auto& each) { return each.get() == unit; }) -
        model_.units.begin());
  };
  for (const auto& chunk : chunks_) {
    auto& ready = ready_.emplace_back();
    for (const Unit* unit : chunk)
      ready.push_back({bind.unit(*unit), number_of(unit), unit->role == UnitRole::head});
  }
  loss_gradient_ = recipe_.loss_gradient.resolve({}, [](const Tensor& loss) { return at::ones_like(loss); });
  gradients_ = recipe_.gradients.resolve({}, [](Gradients&, Update&) {});
  PartTimes& times = log().setup_times();
  times.time("optimizer", [&] {
    optimizer_ = recipe_.optimizer.resolve({}, default_optimizer)(*this, data_parallel_->shards());
  });
  times.time("plugins, run ready", [&] { recipe_.fire(Event::ready, *this); });
}
}  // namespace optrush
