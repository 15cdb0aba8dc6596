#include "master_adamw.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <array>
#include <cmath>
#include <unordered_map>

#include "gpu/update.h"
#include "optrush/error.h"
#include "pieces.h"

namespace optrush::master_adamw {
namespace {
constexpr int64_t kNumbersPerThread = 32768;

/// The masters of a shard: those of its parameters where they lie in it. A shard that is one whole parameter
/// takes its tensor over.
Tensor master_of(const Shard& shard, const Masters& masters) {
  if (shard.data.scalar_type() == at::kFloat) return shard.data;
  const Segment& first = shard.segments.front();
  if (const auto found = masters.find(first.param);
      shard.segments.size() == 1 && found != masters.end() && found->second.numel() == shard.data.numel())
    return found->second.view(shard.data.sizes());
  Tensor master = shard.data.to(at::kFloat);
  for (const Segment& segment : shard.segments)
    if (const auto found = masters.find(segment.param); found != masters.end())
      master.flatten()
          .narrow(0, segment.at, segment.end - segment.begin)
          .copy_(found->second.flatten().narrow(0, segment.begin, segment.end - segment.begin));
  return master;
}

class MasterAdamW final : public Optimizer {
 public:
  MasterAdamW(const TrainSpec& spec, std::span<Shard> shards, const Masters& masters) : spec_(spec) {
    const at::NoGradGuard no_grad;
    for (const Shard& shard : shards) {
      const auto type = shard.data.scalar_type();
      if (type != at::kBFloat16 && type != at::kFloat)
        throw Error("master weights are kept for parameters in bf16, and beside parameters in fp32; '" +
                        shard.segments.front().param->name + "' is in " + c10::toString(type),
                    "leave train.dtype at fp32: the plugin chooses bf16");
      const Tensor master = master_of(shard, masters);
      state_[key(shard)] = {static_cast<int32_t>(state_.size()), 0, master, at::zeros_like(master),
                            at::zeros_like(master)};
    }
    if (shards.empty() || !shards.front().data.is_cuda()) return;
    const auto on_device = at::TensorOptions(shards.front().data.device());
    const auto count = static_cast<int64_t>(shards.size());
    steps_ = at::zeros({count}, on_device.dtype(at::kInt));
    factors_ = at::empty({count, 3}, on_device.dtype(at::kFloat));
  }

  void step(std::span<Shard> shards, const Update& update) override {
    const at::NoGradGuard no_grad;
    if (shards.empty() || shards.front().data.is_meta())
      return;  // it allocates nothing, so sizes tell nothing
    if (shards.front().data.is_cuda()) {
      step_on_gpu(shards, update);
    } else {
      step_on_cpu(shards, update);
    }
    // Written behind autograd's back.
    for (const Shard& shard : shards) shard.data.unsafeGetTensorImpl()->bump_version();
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    const State& state = state_.at(key(shard));
    std::vector<OptimizerState> all = {{"exp_avg", state.first}, {"exp_avg_sq", state.second}};
    if (writes_weight(shard)) all.push_back({"master", state.master});
    return all;
  }

 private:
  struct State {
    int32_t number = 0;
    int64_t steps = 0;  ///< on a CPU; a GPU counts itself
    Tensor master, first, second;
  };
  static const void* key(const Shard& shard) { return shard.data.unsafeGetTensorImpl(); }
  static bool writes_weight(const Shard& shard) { return shard.data.scalar_type() == at::kBFloat16; }
  static GradientType type_of(const Tensor& gradient) {
    return gradient.scalar_type() == at::kBFloat16 ? GradientType::bf16 : GradientType::fp32;
  }
  /// As the kernels read it: dense, in bf16 or fp32.
  static Tensor readable(const Tensor& gradient) {
    const bool known = gradient.scalar_type() == at::kBFloat16 || gradient.scalar_type() == at::kFloat;
    return (known ? gradient : gradient.to(at::kFloat)).contiguous();
  }
  static Piece piece_of(const Shard& shard, const State& state, const Tensor& gradient) {
    return {gradient.const_data_ptr(),
            state.master.mutable_data_ptr<float>(),
            state.first.mutable_data_ptr<float>(),
            state.second.mutable_data_ptr<float>(),
            writes_weight(shard) ? shard.data.mutable_data_ptr() : nullptr,
            shard.data.numel()};
  }

  void step_on_cpu(std::span<Shard> shards, const Update& update) {
    if (update.skip.defined() && update.skip.item<double>() != 0) return;
    for (const Shard& shard : shards) {
      if (!shard.grad.defined()) continue;
      State& state = state_.at(key(shard));
      const auto steps = static_cast<double>(++state.steps);
      const Factors factors{
          .beta1 = static_cast<float>(spec_.beta1),
          .beta2 = static_cast<float>(spec_.beta2),
          .eps = static_cast<float>(spec_.eps),
          .keep = static_cast<float>(1 - update.lr * (shard.decay ? spec_.weight_decay : 0)),
          .step_size = static_cast<float>(update.lr / (1 - std::pow(spec_.beta1, steps))),
          .root = static_cast<float>(1 / std::sqrt(1 - std::pow(spec_.beta2, steps)))};
      const Tensor gradient = readable(shard.grad);
      const Piece piece = piece_of(shard, state, gradient);
      at::parallel_for(0, piece.count, kNumbersPerThread, [&](int64_t begin, int64_t end) {
        cpu::update(piece, type_of(gradient), factors, begin, end);
      });
    }
  }

  void step_on_gpu(std::span<Shard> shards, const Update& update) {
    const c10::DeviceGuard guard(steps_.device());
    struct Group {
      GradientType type;
      bool writes_weight;
      std::vector<gpu::Piece> pieces = {};
    };
    std::array<Group, 4> groups = {Group{GradientType::bf16, true}, Group{GradientType::bf16, false},
                                   Group{GradientType::fp32, true}, Group{GradientType::fp32, false}};
    Tensors gradients;  // until the kernels are on the stream
    for (const Shard& shard : shards) {
      if (!shard.grad.defined()) continue;
      const State& state = state_.at(key(shard));
      const Tensor& gradient = gradients.emplace_back(readable(shard.grad));
      for (Group& group : groups)
        if (group.type == type_of(gradient) && group.writes_weight == writes_weight(shard))
          group.pieces.push_back({piece_of(shard, state, gradient), state.number, shard.decay});
    }
    const Tensor skip = update.skip.defined() ? update.skip.to(at::kFloat) : Tensor();
    const gpu::State state{.steps = steps_.mutable_data_ptr<int32_t>(),
                           .factors = factors_.mutable_data_ptr<float>(),
                           .lr = update.lr_tensor.const_data_ptr<float>(),
                           .skip = skip.defined() ? skip.const_data_ptr<float>() : nullptr};
    const gpu::Rates rates{spec_.beta1, spec_.beta2, spec_.eps, spec_.weight_decay};
    for (const Group& group : groups) gpu::update(group.pieces, group.type, state, rates);
  }

  TrainSpec spec_;
  std::unordered_map<const void*, State> state_;
  Tensor steps_, factors_;
};
}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const TrainSpec& spec, std::span<Shard> shards, Masters masters) {
  return std::make_unique<MasterAdamW>(spec, shards, masters);
}
}  // namespace optrush::master_adamw
