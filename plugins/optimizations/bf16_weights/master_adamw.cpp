#include "master_adamw.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>

#include <array>
#include <unordered_map>
#include <utility>

#include "gpu/update.h"
#include "kernel_parts/largest.h"
#include "optrush/error.h"
#include "optrush/forecast.h"
#include "optrush/optimizer.h"
#include "pieces.h"

namespace optrush::master_adamw {
namespace {
constexpr int64_t kNumbersPerThread = 32768;

/// The masters of a shard, from the masters of its parameters where these exist. A shard that is one whole
/// parameter uses the tensor of its master without a copy.
Tensor master_of(const Shard& shard, const Masters& masters) {
  if (shard.data.scalar_type() == at::kFloat) return shard.data;
  const Segment& first = shard.segments.front();
  if (const auto found = masters.find(first.param);
      shard.segments.size() == 1 && found != masters.end() && found->second.numel() == shard.data.numel())
    return found->second.to(shard.data.device()).view(shard.data.sizes());  // which may lie on the host
  Tensor master = shard.data.to(at::kFloat);
  for (const Segment& segment : shard.segments)
    if (const auto found = masters.find(segment.param); found != masters.end())
      segment.layout.copy(segment.param->layout, found->second, Shard::part(master, segment));
  return master;
}

class MasterAdamW final : public Optimizer {
 public:
  MasterAdamW(TrainSpec spec, std::span<Shard> shards, const Masters& masters) : spec_(std::move(spec)) {
    const at::NoGradGuard no_grad;
    for (const Shard& shard : shards) {
      const auto type = shard.data.scalar_type();
      if (type != at::kBFloat16 && type != at::kFloat)
        throw Error("bf16_weights supports parameters in bf16 and fp32, but '" +
                        shard.segments.front().param->name + "' is in " + c10::toString(type),
                    "leave train.dtype at fp32: the plugin chooses bf16");
      const Tensor master = master_of(shard, masters);
      state_[shard.key()] = {static_cast<int32_t>(state_.size()), 0, master, at::zeros_like(master),
                             at::zeros_like(master)};
    }
    if (shards.empty() || form_of(shards.front().data) != at::kCUDA) return;
    const auto on_device = at::TensorOptions(shards.front().data.device());
    const auto count = static_cast<int64_t>(shards.size());
    if (shards.front().data.is_cuda()) steps_ = at::zeros({count}, on_device.dtype(at::kInt));
    of_shards_ = at::empty({count, gpu::kNumbersOfShard}, on_device.dtype(at::kFloat));
  }

  void step(std::span<Shard> shards, const Update& update) override {
    const at::NoGradGuard no_grad;
    std::vector<Updated> all;
    for (const Shard& shard : shards)
      if (shard.grad.defined()) all.push_back({&shard, &state_.at(shard.key()), readable(shard.grad)});
    if (all.empty()) return;
    const NotedKernel noted("master_adamw", bytes_moved(all), launches_of(all));
    const at::Device device = shards.front().data.device();
    if (device.is_cuda()) {
      step_on_gpu(all, update);
    } else if (!is_forecast(device)) {
      step_on_cpu(all, update);
    }
    // Autograd does not see the write.
    for (const Updated& one : all) one.shard->data.unsafeGetTensorImpl()->bump_version();
    // A step that may be skipped finds no largest values.
    if (of_shards_.defined() && !update.skip.defined())
      for (const Updated& one : all) note_largest_of(one);
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    State& state = state_.at(shard.key());
    const Tensor steps = steps_.defined() ? steps_[state.number] : at::from_blob(&state.steps, {}, at::kLong);
    std::vector<OptimizerState> all = {
        {"exp_avg", state.first}, {"exp_avg_sq", state.second}, {.name = "step", .value = steps, .block = 0}};
    if (writes_weight(shard)) all.push_back({.name = "master", .value = state.master, .is_parameter = true});
    return all;
  }

 private:
  struct State {
    int32_t number = 0;
    int64_t steps = 0;  ///< on a CPU; a GPU counts its own steps
    Tensor master, first, second;
  };
  static bool writes_weight(const Shard& shard) { return shard.data.scalar_type() == at::kBFloat16; }
  static Type type_of(const Tensor& gradient) {
    return gradient.scalar_type() == at::kBFloat16 ? Type::bf16 : Type::fp32;
  }
  /// In the form that the kernels read: dense, in bf16 or fp32.
  static Tensor readable(const Tensor& gradient) {
    const bool known = gradient.scalar_type() == at::kBFloat16 || gradient.scalar_type() == at::kFloat;
    return (known ? gradient : gradient.to(at::kFloat)).contiguous();
  }
  /// A shard that this step updates.
  struct Updated {
    const Shard* shard;
    State* state;
    Tensor gradient;
  };
  fused::AdamWRates rates() const { return {spec_.beta1, spec_.beta2, spec_.eps, spec_.weight_decay}; }

  static Piece piece_of(const Updated& one) {
    return {one.gradient.const_data_ptr(),
            one.state->master.mutable_data_ptr<float>(),
            one.state->first.mutable_data_ptr<float>(),
            one.state->second.mutable_data_ptr<float>(),
            writes_weight(*one.shard) ? one.shard->data.mutable_data_ptr() : nullptr,
            one.shard->data.numel()};
  }
  /// Shards that one instance of the GPU's kernel takes together.
  static size_t group_of(const Updated& one) {
    return (type_of(one.gradient) == Type::bf16 ? 0U : 2U) + (writes_weight(*one.shard) ? 0U : 1U);
  }
  static constexpr size_t kGroups = 4;

  /// Leaves the largest value that the GPU's kernel found on a weight that is a whole parameter.
  void note_largest_of(const Updated& one) const {
    const Tensor& leaf = one.shard->segments.front().param->leaf;
    const Tensor& data = one.shard->data;
    if (writes_weight(*one.shard) && one.shard->segments.size() == 1 && leaf.defined() &&
        leaf.is_alias_of(data) && leaf.numel() == data.numel())
      fused::note_largest(leaf, of_shards_[one.state->number].narrow(0, gpu::kNumbersOfShard - 1, 1));
  }

  static double bytes_moved(const std::vector<Updated>& all) {
    double bytes = 0;
    for (const Updated& one : all)
      bytes += bytes_of({one.gradient}) +
               2 * bytes_of({one.state->master, one.state->first, one.state->second}) +
               (writes_weight(*one.shard) ? bytes_of({one.shard->data}) : 0);
    return bytes;
  }
  static int64_t launches_of(const std::vector<Updated>& all) {
    std::array<int64_t, kGroups> shards{};
    for (const Updated& one : all) ++shards[group_of(one)];
    int64_t launches = 0;
    for (const int64_t count : shards) launches += gpu::launches_for(count);
    return launches;
  }

  void step_on_cpu(const std::vector<Updated>& all, const Update& update) {
    if (update.skip.defined() && update.skip.item<double>() != 0) return;
    for (const Updated& one : all) {
      const auto steps = static_cast<double>(++one.state->steps);
      const Factors factors = rates().at(steps, update.lr, one.shard->decay);
      const Piece piece = piece_of(one);
      const Type type = type_of(one.gradient);
      at::parallel_for(0, piece.count, kNumbersPerThread,
                       [&](int64_t begin, int64_t end) { cpu::update(piece, type, factors, begin, end); });
    }
  }

  void step_on_gpu(const std::vector<Updated>& all, const Update& update) {
    const c10::DeviceGuard guard(steps_.device());
    std::array<std::vector<gpu::Piece>, kGroups> groups;
    std::array<Type, kGroups> types{};
    for (const Updated& one : all) {
      const size_t group = group_of(one);
      types[group] = type_of(one.gradient);
      groups[group].push_back({piece_of(one), one.state->number, one.shard->decay});
    }
    const Tensor skip = update.skip.defined() ? update.skip.to(at::kFloat) : Tensor();
    const gpu::State state{.steps = steps_.mutable_data_ptr<int32_t>(),
                           .factors = of_shards_.mutable_data_ptr<float>(),
                           .lr = update.lr_tensor.const_data_ptr<float>(),
                           .skip = skip.defined() ? skip.const_data_ptr<float>() : nullptr};
    for (size_t group = 0; group < kGroups; ++group) gpu::update(groups[group], types[group], state, rates());
  }

  TrainSpec spec_;
  std::unordered_map<const void*, State> state_;
  Tensor steps_, of_shards_;  ///< on a GPU
};
}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const TrainSpec& spec, std::span<Shard> shards,
                                          const Masters& masters) {
  return std::make_unique<MasterAdamW>(spec, shards, masters);
}
}  // namespace optrush::master_adamw
