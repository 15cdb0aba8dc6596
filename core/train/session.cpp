#include "train/session.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include <mutex>

#include "base/counter_random.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
void collect(Unit& unit, const std::string& role, std::vector<Module*>& found) {
  for (auto& module : unit.modules)
    if (module.role == role) found.push_back(&module);
  for (auto& child : unit.children) collect(*child, role, found);
}

/// Seeds the default generators, which dropout uses.
void seed_generators(at::Device device, uint64_t seed) {
  const auto set = [seed](at::Device of) {
    at::Generator generator = at::globalContext().defaultGenerator(of);
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  };
  set(at::kCPU);
  if (device.is_cuda()) set(device);
}
}  // namespace

Tensor Session::forward(int64_t chunk, const Batch& batch, Tensor in, bool seeded) const {
  const auto scopes = recipe_.scopes().enter();
  const uint64_t of_step = random_at(spec().train.seed, static_cast<uint64_t>(step_));
  const uint64_t of_batch = random_at(of_step, static_cast<uint64_t>(batch.first_sample));
  bool is_loss = false;
  for (const ReadyUnit& unit : ready_.at(static_cast<size_t>(chunk))) {
    if (seeded) seed_generators(device_, random_at(of_batch, unit.number));
    in = unit.call(in, batch);
    is_loss = unit.is_head && in.dim() == 0;  // otherwise the output is logits
  }
  return is_loss ? in / batch.token_count : in;
}

void Session::begin_step(int64_t step) {
  step_ = step;
  seed_generators(device_, random_at(spec().train.seed, static_cast<uint64_t>(step)));
  recipe_.fire(Event::step_begin, *this);
}

void Session::allow_update(bool allowed) {
  updates_ = allowed;
  if (!allowed) return;
  const double lr = learning_rate(spec().train, step_);
  if (!update_.lr_tensor.defined()) {
    // Shards, and with them the optimizer, may be on the host while the run is on a GPU.
    const auto shards = data_parallel_->shards();
    const at::Device kept = shards.empty() ? device_ : shards[0].data.device();
    update_.lr_tensor = at::empty({}, at::TensorOptions(at::kFloat).device(kept));
  }
  update_.lr_tensor.fill_(lr);  // in place, because a recorded step reads this tensor
  update_.lr = lr;
}

const Update* Session::update() { return updates_ ? &update_ : nullptr; }

void Session::expect_traffic(const std::string& collective, const Mesh::Names& dims, double bytes) {
  expected_traffic_[{collective, recipe_.mesh.group(dims).name()}] += bytes;
}

std::vector<Module*> Session::modules(const std::string& role) const {
  std::vector<Module*> found;
  if (chunks_.empty())
    for (const auto& unit : model_.units) collect(*unit, role, found);
  for (const auto& chunk : chunks_)
    for (Unit* unit : chunk) collect(*unit, role, found);
  return found;
}
}  // namespace optrush
