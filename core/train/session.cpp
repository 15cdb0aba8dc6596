#include "train/session.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

#include "data/counter_random.h"
#include "model/hugging_face.h"
#include "model/init.h"
#include "optrush/forecast.h"
#include "recipe/engine.h"
#include "train/adamw.h"
#include "train/single_device.h"

namespace optrush {
namespace {
void collect(Unit& unit, const std::string& role, std::vector<Site*>& found) {
  for (auto& site : unit.sites)
    if (site.role == role) found.push_back(&site);
  for (auto& child : unit.children) collect(*child, role, found);
}

Tensor slice(Tensor value, const std::vector<Placement>& placements) {
  for (const auto& p : placements) value = value.slice(p.axis, p.begin, p.end);
  return value;
}

std::unique_ptr<DataParallel> plain_data_parallel(Run& run) {
  if (run.mesh().data_size() > 1)
    throw Error(std::to_string(run.mesh().data_size()) +
                    " data-parallel ranks and nothing that makes them train one model",
                "stack a data-parallel plugin, or start one process");
  return make_single_device();
}

std::unique_ptr<Optimizer> plain_optimizer(Run& run) {
  return make_adamw(run.spec().train, run.data_parallel().shards());
}
}  // namespace

at::ScalarType parse_dtype(const std::string& name) {
  if (name == "fp32") return at::kFloat;
  if (name == "fp64") return at::kDouble;
  if (name == "bf16") return at::kBFloat16;
  throw Error("unknown dtype '" + name + "'", "one of: bf16, fp32, fp64");
}

Session::Session(Recipe& recipe, at::Device device) : recipe_(recipe), device_(device) {
  use_saved_tensor_engine();
}

void Session::declare() {
  model_ = declare_model(spec(), params_, parse_dtype(spec().train.dtype));
  recipe_.fire(Event::declared, *this);
}

void Session::place() {
  data_parallel_ = recipe_.data_parallel.resolve({}, plain_data_parallel)(*this);
  std::optional<Checkpoint> checkpoint;
  if (!model_.checkpoint.empty()) checkpoint.emplace(model_.checkpoint).check_known(params_);
  const auto full_value = [&](const Param& param) {
    if (is_forecast(device_)) return at::empty(param.shape, at::TensorOptions(param.dtype).device(device_));
    const bool stored = checkpoint && checkpoint->contains(param.name);
    return stored ? checkpoint->read(param) : initial_value(param, spec().train.seed, device_.is_cuda());
  };
  const at::NoGradGuard no_grad;
  for (Param* param : params_.all()) {
    // To a GPU, a parameter is copied while the next one is drawn.
    const Tensor uncut = slice(full_value(*param), param->placements)
                             .to(at::TensorOptions(device_), /*non_blocking=*/device_.is_cuda());
    if (param->on_value) param->on_value(uncut);
    const Tensor local = uncut.to(param->dtype).contiguous();
    data_parallel_->store(*param, param->codec ? param->codec->encode(local) : Tensors{local});
  }
  recipe_.fire(Event::placed, *this);
}

void Session::make_ready() {
  const auto all_in_one = [](Run& run) {
    std::vector<Unit*> units;
    for (const auto& unit : run.units()) units.push_back(unit.get());
    return std::vector<std::vector<Unit*>>{units};
  };
  const Binder bind(recipe_);
  for (const auto& units : recipe_.stages.resolve({}, all_in_one)(*this)) {
    Chunk& chunk = chunks_.emplace_back();
    for (const Unit* unit : units) chunk.units.push_back(bind.unit(*unit));
    chunk.has_head = !units.empty() && units.back()->role == "head";
  }
  loss_gradient_ = recipe_.loss_gradient.resolve({}, [](const Tensor& loss) { return at::ones_like(loss); });
  gradients_ = recipe_.gradients.resolve({}, [](std::span<Shard>, Update&) {});
  optimizer_ = recipe_.optimizer.resolve({}, plain_optimizer)(*this);
  recipe_.fire(Event::ready, *this);
}

Tensor Session::forward(int64_t chunk, const Batch& batch, Tensor in) const {
  const auto scopes = recipe_.scopes().enter();
  const Chunk& here = chunks_.at(static_cast<size_t>(chunk));
  for (const auto& unit : here.units) in = unit(in, batch);
  const bool is_loss = here.has_head && in.dim() == 0;  // else logits
  return is_loss ? in / batch.token_count : in;
}

void Session::begin_step(int64_t step) {
  step_ = step;
  const uint64_t of_step = random_at(spec().train.seed, static_cast<uint64_t>(step));
  const uint64_t draws = random_at(of_step, static_cast<uint64_t>(mesh().rank("dp")));
  std::vector<at::Device> drawing = {at::kCPU};
  if (device_.is_cuda()) drawing.push_back(device_);
  for (const at::Device device : drawing) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(draws);
  }
  recipe_.fire(Event::step_begin, *this);
}

std::vector<Site*> Session::sites(const std::string& role) const {
  std::vector<Site*> found;
  for (const auto& unit : model_.units) collect(*unit, role, found);
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

void Session::note(const std::string& text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}
}  // namespace optrush
