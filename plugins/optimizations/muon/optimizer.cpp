#include "optimizer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "optrush/error.h"
#include "orthogonalize.h"

namespace optrush::muon {
namespace {
class Muon final : public Optimizer {
 public:
  Muon(const TrainSpec& spec, const Settings& settings, std::span<Shard> matrices,
       std::unique_ptr<Optimizer> others)
      : weight_decay_(spec.weight_decay), settings_(settings), others_(std::move(others)) {
    for (const Shard& shard : matrices) momenta_[key(shard)] = at::zeros_like(shard.data);
  }

  void step(std::span<Shard> shards, const Update& update) override {
    const at::NoGradGuard no_grad;
    const bool skips = update.skip.defined() && update.skip.item<double>() != 0;
    std::vector<Shard> others;
    for (Shard& shard : shards) {
      const auto momentum = momenta_.find(key(shard));
      if (momentum == momenta_.end())
        others.push_back(shard);
      else if (shard.grad.defined() && !skips)
        update_one(shard, momentum->second, update.lr);
    }
    if (!others.empty()) others_->step(others, update);
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    const auto momentum = momenta_.find(key(shard));
    if (momentum == momenta_.end()) return others_->state(shard);
    return {{"momentum_buffer", momentum->second}};
  }

 private:
  static const void* key(const Shard& shard) { return shard.data.unsafeGetTensorImpl(); }

  double scale_of(const Tensor& matrix) const {
    const auto rows = static_cast<double>(matrix.size(0)), columns = static_cast<double>(matrix.size(1));
    return settings_.scale == Scale::match_rms ? 0.2 * std::sqrt(std::max(rows, columns))
                                               : std::sqrt(std::max(1.0, rows / columns));
  }

  void update_one(const Shard& shard, Tensor& momentum, double lr) const {
    momentum.lerp_(shard.grad, 1 - settings_.momentum);
    const Tensor direction = settings_.nesterov ? shard.grad.lerp(momentum, settings_.momentum) : momentum;
    if (shard.decay) shard.data.mul_(1 - lr * weight_decay_);
    const auto& multiplied_in = shard.segments.front().param->operand_type;
    shard.data.add_(
        orthogonalize(direction, settings_.steps, multiplied_in.value_or(direction.scalar_type())),
        -lr * scale_of(shard.data));
  }

  double weight_decay_;
  Settings settings_;
  std::unordered_map<const void*, Tensor> momenta_;
  std::unique_ptr<Optimizer> others_;
};
}  // namespace

bool is_hidden_matrix(const Param& param) {
  return param.shape.size() == 2 && std::ranges::find(param.axes, "vocab") == param.axes.end();
}

Split split(std::span<Shard> shards) {
  Split split;
  for (const Shard& shard : shards) {
    const auto hidden = std::ranges::find_if(
        shard.segments, [](const Segment& segment) { return is_hidden_matrix(*segment.param); });
    if (hidden == shard.segments.end()) {
      split.others.push_back(shard);
      continue;
    }
    if (shard.data.sizes() != at::IntArrayRef(hidden->param->shape))
      throw Error(
          "muon orthogonalizes whole matrices, and this rank has a part of '" + hidden->param->name + "'",
          "give every rank whole ones: ddp");
    split.matrices.push_back(shard);
  }
  return split;
}

std::unique_ptr<Optimizer> make_optimizer(const TrainSpec& spec, const Settings& settings,
                                          std::span<Shard> matrices, std::unique_ptr<Optimizer> others) {
  return std::make_unique<Muon>(spec, settings, matrices, std::move(others));
}
}  // namespace optrush::muon
