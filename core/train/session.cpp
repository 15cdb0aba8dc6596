#include "train/session.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <optional>

#include "base/counter_random.h"
#include "base/files.h"
#include "base/learning_rate.h"
#include "base/spec_json.h"
#include "base/suggest.h"
#include "build_info.h"
#include "checkpoint/check_checkpoint.h"
#include "data/batches.h"
#include "distributed/rendezvous.h"
#include "measure/step_clock.h"
#include "model/collective_alone.h"
#include "model/hugging_face.h"
#include "optrush/forecast.h"
#include "optrush/host/resolve.h"
#include "params/init.h"
#include "recipe/engine.h"
#include "train/adamw.h"
#include "train/lost_adapters.h"
#include "train/single_device.h"
#include "train/validation.h"

namespace optrush {
namespace {
void collect(Unit& unit, const std::string& role, std::vector<Site*>& found) {
  for (auto& site : unit.sites)
    if (site.role == role) found.push_back(&site);
  for (auto& child : unit.children) collect(*child, role, found);
}

/// Plugins that make several ranks train one model, found by what they replace.
std::vector<std::string> data_parallel_plugins(const RunSpec& spec) {
  std::vector<std::string> names;
  const Catalogue catalogue = Catalogue::find(spec.plugin_path);
  for (const auto& plugin : catalogue.plugins()) {
    if (plugin.kind != "parallelism") continue;
    RunSpec alone = spec;
    alone.plugins = {{.name = plugin.name}};
    try {
      auto loaded = load_plugins(alone);
      RunRecipe recipe(alone);
      apply_plugins(loaded, recipe);
      if (recipe.data_parallel.base().plugin == plugin.name) names.push_back(plugin.name);
    } catch (const Error&) {  // it asks for what is not here
    }
  }
  return names;
}

std::unique_ptr<DataParallel> plain_data_parallel(Run& run) {
  const int64_t ranks = run.mesh().size(run.mesh().data());
  if (ranks > 1) {
    const auto names = data_parallel_plugins(run.spec());
    throw Error("train.world_size gives " + std::to_string(ranks) +
                    " data-parallel ranks, and no plugin makes them train one model",
                (names.empty() ? "stack a plugin for data parallelism" : "stack " + join(names, " or ")) +
                    ", or leave train.world_size at 1");
  }
  return make_single_device(run);
}

/// What the ranks of a run have to agree on before they connect.
std::string identity_of(const RunSpec& spec) {
  return "OptRush " OPTRUSH_VERSION ", spec " + sha256(to_json(spec).dump()).substr(0, 12);
}

/// Dropout and whatever else draws from the default generators starts here.
void seed_generators(at::Device device, uint64_t seed) {
  const auto set = [seed](at::Device of) {
    at::Generator generator = at::globalContext().defaultGenerator(of);
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  };
  set(at::kCPU);
  if (device.is_cuda()) set(device);
}

std::unique_ptr<Optimizer> plain_optimizer(Run& run, std::span<Shard> shards) {
  return make_adamw(run.spec().train, shards);
}
}  // namespace

at::ScalarType parse_dtype(const std::string& name) {
  if (name == "fp32") return at::kFloat;
  if (name == "fp64") return at::kDouble;
  if (name == "bf16") return at::kBFloat16;
  throw Error("unknown dtype '" + name + "'", "one of: bf16, fp32, fp64");
}

std::unique_ptr<Session> Session::open(const RunSpec& spec, at::Device device, const Ranks& ranks,
                                       const std::function<void(RunRecipe&)>& edit) {
  if (spec.train.world_size != ranks.size)
    throw Error("train.world_size is " + std::to_string(spec.train.world_size) + ", and the run has " +
                std::to_string(ranks.size) + (ranks.size == 1 ? " process" : " processes"));
  std::unique_ptr<Session> session(new Session(load_plugins(spec), spec, device, ranks));
  RunRecipe& recipe = session->recipe_;
  apply_plugins(session->plugins_, recipe);
  if (spec.model_kind == "collective") {
    recipe.edit_as("model");
    call_collective(collective_from_json(spec.model, "model"), recipe);
  }
  if (edit) edit(recipe);
  recipe.seal();
  recipe.check();
  if (!recipe.learns_from(spec.data.kind)) refuse_data_without_loss(spec.data);
  if (spec.validate.every > 0) Validation::check(recipe);
  recipe.run_mesh().settle(ranks.rank, ranks.size);
  if (ranks.size == 1 || ranks.alone) recipe.run_mesh().groups().connect(ranks, nullptr, device);
  return session;
}

Session::Session(std::vector<LoadedPlugin> plugins, const RunSpec& spec, at::Device device, Ranks ranks)
    : plugins_(std::move(plugins)), recipe_(spec), ranks_(std::move(ranks)), device_(device) {
  use_saved_tensor_engine();
}

Session::~Session() = default;

void Session::connect() {
  if (!recipe_.run_mesh().groups().connected()) {
    store_ = rendezvous(ranks_, identity_of(recipe_.spec()));
    refuse_shared_gpus(*store_, ranks_);
    recipe_.run_mesh().groups().connect(ranks_, store_, device_);
  }
  recipe_.fire(Event::meshed, *this);
}

void Session::declare() {
  model_ = declare_model(spec(), params_, parse_dtype(spec().train.dtype));
  const LostAdapters adapters(*this);
  recipe_.fire(Event::declared, *this);
  adapters.refuse(recipe_);
  if (!model_.checkpoint.empty()) {
    Checkpoint(model_.checkpoint).check_known(params_);
    const auto stored = read_hugging_face_model(model_.checkpoint);
    check_sequence_length(spec(), stored, {});
    if (const auto warning = untrained_positions(spec(), stored)) note(*warning);
  }
  choose_units();
  data_parallel_ = recipe_.data_parallel.resolve({}, plain_data_parallel)(*this);
}

void Session::choose_units() {
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

void Session::place() {
  std::optional<Checkpoint> checkpoint;
  if (!model_.checkpoint.empty()) checkpoint.emplace(model_.checkpoint);
  const auto full_value = [&](const Param& param) {
    if (is_forecast(device_)) return at::empty(param.shape, at::TensorOptions(param.dtype).device(device_));
    const bool stored = checkpoint && checkpoint->contains(param.name);
    return stored ? checkpoint->read(param) : initial_value(param, spec().train.seed, device_.is_cuda());
  };
  const at::NoGradGuard no_grad;
  for (Param* param : params_.all()) {
    // To a GPU, a parameter is copied while the next one is drawn.
    const Tensor uncut = param->layout.take(full_value(*param))
                             .to(at::TensorOptions(device_), /*non_blocking=*/device_.is_cuda());
    if (param->on_value) param->on_value(uncut);
    Tensor local = uncut.to(param->dtype).contiguous();
    // A piece of a whole that is gone may not keep the whole.
    if (local.storage().nbytes() > local.nbytes()) local = local.clone();
    data_parallel_->store(*param, param->codec ? param->codec->encode(local) : Tensors{local});
  }
  recipe_.fire(Event::placed, *this);
}

void Session::make_ready() {
  place();
  const Binder bind(recipe_);
  const auto number_of = [&](const Unit* unit) {
    return static_cast<uint64_t>(
        std::ranges::find_if(model_.units, [&](const auto& each) { return each.get() == unit; }) -
        model_.units.begin());
  };
  for (const auto& chunk : chunks_) {
    auto& ready = ready_.emplace_back();
    for (const Unit* unit : chunk) ready.push_back({bind.unit(*unit), number_of(unit), unit->role == "head"});
  }
  loss_gradient_ = recipe_.loss_gradient.resolve({}, [](const Tensor& loss) { return at::ones_like(loss); });
  gradients_ = recipe_.gradients.resolve({}, [](Gradients&, Update&) {});
  optimizer_ = recipe_.optimizer.resolve({}, plain_optimizer)(*this, data_parallel_->shards());
  recipe_.fire(Event::ready, *this);
}

bool Session::has_head() const {
  return std::ranges::any_of(chunks_, [](const auto& chunk) {
    return std::ranges::any_of(chunk, [](const Unit* unit) { return unit->role == "head"; });
  });
}

Tensor Session::forward(int64_t chunk, const Batch& batch, Tensor in, bool seeded) const {
  const auto scopes = recipe_.scopes().enter();
  const uint64_t of_step = random_at(spec().train.seed, static_cast<uint64_t>(step_));
  const uint64_t of_batch = random_at(of_step, static_cast<uint64_t>(batch.first_sample));
  bool is_loss = false;
  for (const ReadyUnit& unit : ready_.at(static_cast<size_t>(chunk))) {
    if (seeded) seed_generators(device_, random_at(of_batch, unit.number));
    in = unit.call(in, batch);
    is_loss = unit.is_head && in.dim() == 0;  // else logits
  }
  return is_loss ? in / batch.token_count : in;
}

void Session::begin_step(int64_t step) {
  step_ = step;
  seed_generators(device_, random_at(spec().train.seed, static_cast<uint64_t>(step)));
  recipe_.fire(Event::step_begin, *this);
}

void Session::updates(bool does) {
  updates_ = does;
  if (!does) return;
  const double lr = learning_rate(spec().train, step_);
  if (!update_.lr_tensor.defined()) {
    // Shards, and so the optimizer, may be on the host while the run is on a GPU.
    const auto shards = data_parallel_->shards();
    const at::Device kept = shards.empty() ? device_ : shards[0].data.device();
    update_.lr_tensor = at::empty({}, at::TensorOptions(at::kFloat).device(kept));
  }
  update_.lr_tensor.fill_(lr);  // in its place: a recorded step reads it there
  update_.lr = lr;
}

const Update* Session::update() { return updates_ ? &update_ : nullptr; }

const TrafficTable& Session::traffic() const { return recipe_.run_mesh().groups().traffic(); }

void Session::expect_traffic(const std::string& collective, const Mesh::Names& dims, double bytes) {
  expected_traffic_[{collective, recipe_.mesh.group(dims).name()}] += bytes;
}

void Session::time_waits(StepClock* clock) {
  if (clock == nullptr)
    recipe_.run_mesh().groups().around_waits({});
  else
    recipe_.run_mesh().groups().around_waits(
        [clock] { return std::make_shared<BucketScope>(*clock, Bucket::communication); });
}

Run::Guard Session::bookkeeping() { return recipe_.run_mesh().groups().bookkeeping(); }

std::vector<Site*> Session::sites(const std::string& role) const {
  std::vector<Site*> found;
  if (chunks_.empty())
    for (const auto& unit : model_.units) collect(*unit, role, found);
  for (const auto& chunk : chunks_)
    for (Unit* unit : chunk) collect(*unit, role, found);
  return found;
}

void Session::enter_phase(const std::string& name) {
  phase_ = name;
  progress_(name);
}

Run::Guard Session::compiling(const std::string& what) {
  struct Compiling {
    Session& session;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    at::DisableRecordFunctionGuard uncounted;
    explicit Compiling(Session& session) : session(session) {}
    Compiling(const Compiling&) = delete;
    Compiling& operator=(const Compiling&) = delete;
    ~Compiling() {
      session.compile_seconds_ +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      session.progress_(session.phase_);
    }
  };
  progress_("compiling " + what);
  return std::make_shared<Compiling>(*this);
}

namespace {
void add_once(std::vector<std::string>& list, const std::string& text) {
  if (std::ranges::find(list, text) == list.end()) list.push_back(text);
}
}  // namespace

void Session::note(const std::string& text) { add_once(notes_, text); }
void Session::warn(const std::string& text) { add_once(warnings_, text); }
}  // namespace optrush
