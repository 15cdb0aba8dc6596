#include "optimizer.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "code.h"
#include "gpu/update.h"
#include "optrush/error.h"
#include "optrush/forecast.h"
#include "optrush/optimizer.h"
#include "pieces.h"

namespace optrush::adamw_8bit {
namespace {
constexpr int64_t kBlocksPerThread = 64;

int64_t blocks_of(int64_t numbers) { return (numbers + kBlock - 1) / kBlock; }

/// Moments of a shard: codes and their scales, or fp32 numbers without scales.
struct Moments {
  int32_t number = 0;  ///< index of its count of steps
  Tensor first, second, first_scales, second_scales, steps;
  bool narrow() const { return first_scales.defined(); }
};

class AdamW8bit final : public Optimizer {
 public:
  AdamW8bit(TrainSpec spec, std::span<Shard> shards) : spec_(std::move(spec)) {
    const at::NoGradGuard no_grad;
    if (shards.empty()) return;
    const auto on_device = at::TensorOptions(shards.front().data.device());
    steps_ = at::zeros({static_cast<int64_t>(shards.size())}, on_device.dtype(at::kFloat));
    for (const Shard& shard : shards) add(shard);
    if (!shards.front().data.is_cuda()) return;
    factors_ = at::empty({steps_.numel(), 3}, on_device.dtype(at::kFloat));
    tables_ = gpu::tables_on(shards.front().data.device());
  }

  void step(std::span<Shard> shards, const Update& update) override {
    const at::NoGradGuard no_grad;
    std::vector<Updated> narrow, wide;
    Tensors steps;
    for (const Shard& shard : shards) {
      if (!shard.grad.defined()) continue;
      Moments& moments = moments_.at(shard.key());
      steps.push_back(moments.steps);
      (moments.narrow() ? narrow : wide).push_back({&shard, &moments, readable(shard.grad)});
    }
    if (steps.empty()) return;
    at::_foreach_add_(steps, 1);
    // A skipped step does not count.
    if (update.skip.defined()) at::_foreach_sub_(steps, Tensors(steps.size(), update.skip));
    for (const bool decay : {true, false}) step_wide(wide, decay, update);
    if (!narrow.empty()) step_narrow(narrow, update);
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    const Moments& moments = moments_.at(shard.key());
    std::vector<OptimizerState> all = {{"exp_avg", moments.first},
                                       {"exp_avg_sq", moments.second},
                                       {.name = "step", .value = moments.steps, .block = 0}};
    if (!moments.narrow()) return all;
    all.push_back({.name = "exp_avg_scale", .value = moments.first_scales, .block = kBlock});
    all.push_back({.name = "exp_avg_sq_scale", .value = moments.second_scales, .block = kBlock});
    return all;
  }

 private:
  /// A shard that this step updates.
  struct Updated {
    const Shard* shard;
    Moments* moments;
    Tensor gradient;
  };
  /// In the form that the kernels read: dense, in bf16 or fp32.
  static Tensor readable(const Tensor& gradient) {
    const bool known = gradient.scalar_type() == at::kBFloat16 || gradient.scalar_type() == at::kFloat;
    return (known ? gradient : gradient.to(at::kFloat)).contiguous();
  }
  static Type type_of(const Tensor& numbers) {
    return numbers.scalar_type() == at::kBFloat16 ? Type::bf16 : Type::fp32;
  }
  static Types types_of(const Updated& one) { return {type_of(one.gradient), type_of(one.shard->data)}; }

  void add(const Shard& shard) {
    const bool narrow =
        std::ranges::all_of(shard.segments, [](const Segment& s) { return is_narrow(*s.param); });
    const auto type = shard.data.scalar_type();
    if (type != at::kFloat && !(narrow && type == at::kBFloat16))
      throw Error("adamw_8bit supports matrices in fp32 or bf16 and vectors in fp32, but '" +
                      shard.segments.front().param->name + "' is in " + c10::toString(type),
                  "set train.dtype to fp32 or bf16");
    Moments moments{.number = static_cast<int32_t>(moments_.size())};
    moments.steps = steps_[moments.number];
    const auto zeros = [&](int64_t count, at::ScalarType type) {
      return at::zeros({count}, shard.data.options().dtype(type));
    };
    if (narrow) {
      const int64_t count = shard.data.numel(), blocks = blocks_of(count);
      // With scale 0 every code decodes to 0, so a first step reads zeros.
      moments.first = zeros(count, at::kByte), moments.second = zeros(count, at::kByte);
      moments.first_scales = zeros(blocks, at::kFloat), moments.second_scales = zeros(blocks, at::kFloat);
    } else {
      moments.first = at::zeros_like(shard.data), moments.second = at::zeros_like(shard.data);
    }
    moments_[shard.key()] = std::move(moments);
  }

  void step_wide(const std::vector<Updated>& all, bool decay, const Update& update) {
    Tensors data, gradients, first, second, steps;
    for (const Updated& one : all) {
      if (one.shard->decay != decay) continue;
      data.push_back(one.shard->data);
      gradients.push_back(one.gradient.to(at::kFloat));
      first.push_back(one.moments->first);
      second.push_back(one.moments->second);
      steps.push_back(one.moments->steps);
    }
    if (data.empty()) return;
    const auto skip = update.skip.defined() ? std::optional<Tensor>(update.skip) : std::nullopt;
    at::_fused_adamw_(data, gradients, first, second, /*max_exp_avg_sqs=*/{}, steps, update.lr_tensor,
                      spec_.beta1, spec_.beta2, decay ? spec_.weight_decay : 0, spec_.eps, /*amsgrad=*/false,
                      /*maximize=*/false,
                      /*grad_scale=*/std::nullopt, skip);
  }

  void step_narrow(const std::vector<Updated>& all, const Update& update) {
    const NotedKernel noted("adamw_8bit", bytes_moved(all), launches_of(all));
    const at::Device device = steps_.device();
    if (is_forecast(device)) return;
    if (device.is_cuda())
      step_on_gpu(all, update);
    else
      step_on_cpu(all, update);
    // Autograd does not see the write.
    for (const Updated& one : all) one.shard->data.unsafeGetTensorImpl()->bump_version();
  }

  static double bytes_moved(const std::vector<Updated>& all) {
    double bytes = 0;
    for (const Updated& one : all)
      bytes +=
          bytes_of({one.gradient}) + 2 * bytes_of({one.shard->data, one.moments->first, one.moments->second,
                                                   one.moments->first_scales, one.moments->second_scales});
    return bytes;
  }
  /// The shards that one instance of the GPU's kernel takes together.
  static std::vector<std::pair<Types, std::vector<const Updated*>>> by_types(
      const std::vector<Updated>& all) {
    std::vector<std::pair<Types, std::vector<const Updated*>>> groups;
    for (const Updated& one : all) {
      const Types types = types_of(one);
      auto group = std::ranges::find(groups, types, [](const auto& known) { return known.first; });
      if (group == groups.end()) group = groups.insert(groups.end(), {types, {}});
      group->second.push_back(&one);
    }
    return groups;
  }
  static int64_t launches_of(const std::vector<Updated>& all) {
    int64_t launches = 0;
    for (const auto& [types, group] : by_types(all)) launches += gpu::launches_for(std::ssize(group));
    return launches;
  }

  fused::AdamWRates rates() const { return {spec_.beta1, spec_.beta2, spec_.eps, spec_.weight_decay}; }

  static Piece piece_of(const Updated& one) {
    const Moments& moments = *one.moments;
    return {.gradient = one.gradient.const_data_ptr(),
            .data = one.shard->data.mutable_data_ptr(),
            .first = moments.first.mutable_data_ptr<uint8_t>(),
            .second = moments.second.mutable_data_ptr<uint8_t>(),
            .first_scales = moments.first_scales.mutable_data_ptr<float>(),
            .second_scales = moments.second_scales.mutable_data_ptr<float>(),
            .count = one.shard->data.numel()};
  }

  void step_on_cpu(const std::vector<Updated>& all, const Update& update) {
    if (update.skip.defined() && update.skip.item<double>() != 0) return;
    for (const Updated& one : all) {
      const auto steps = one.moments->steps.item<double>();
      const Factors factors{rates().at(steps, update.lr, one.shard->decay),
                            rounding_seed(spec_.seed, static_cast<uint32_t>(one.moments->number),
                                          static_cast<uint32_t>(steps))};
      const Piece piece = piece_of(one);
      const Types types = types_of(one);
      at::parallel_for(0, blocks_of(piece.count), kBlocksPerThread,
                       [&](int64_t begin, int64_t end) { cpu::update(piece, types, factors, begin, end); });
    }
  }

  void step_on_gpu(const std::vector<Updated>& all, const Update& update) {
    const c10::DeviceGuard guard(steps_.device());
    const Tensor skip = update.skip.defined() ? update.skip.to(at::kFloat) : Tensor();
    const gpu::State state{.steps = steps_.const_data_ptr<float>(),
                           .factors = factors_.mutable_data_ptr<float>(),
                           .lr = update.lr_tensor.const_data_ptr<float>(),
                           .skip = skip.defined() ? skip.const_data_ptr<float>() : nullptr};
    for (const auto& [types, group] : by_types(all)) {
      std::vector<gpu::Piece> pieces;
      for (const Updated* one : group)
        pieces.push_back({piece_of(*one), one->moments->number, one->shard->decay});
      gpu::update(pieces, types, state, rates(), tables_.const_data_ptr(), spec_.seed);
    }
  }

  TrainSpec spec_;
  std::unordered_map<const void*, Moments> moments_;
  Tensor steps_, factors_, tables_;
};
}  // namespace

bool is_narrow(const Param& param) { return param.shape.size() >= 2; }

std::unique_ptr<Optimizer> make_optimizer(const TrainSpec& spec, std::span<Shard> shards) {
  return std::make_unique<AdamW8bit>(spec, shards);
}
}  // namespace optrush::adamw_8bit
