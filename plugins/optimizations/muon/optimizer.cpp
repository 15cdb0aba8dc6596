#include "optimizer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "optrush/error.h"
#include "optrush/optimizer.h"
#include "orthogonalize.h"

namespace optrush::muon {
namespace {
class Muon final : public Optimizer {
 public:
  Muon(const TrainSpec& spec, const Settings& settings, std::span<Shard> matrices, std::vector<Round> rounds,
       std::unique_ptr<Optimizer> others)
      : weight_decay_(spec.weight_decay),
        settings_(settings),
        rounds_(std::move(rounds)),
        others_(std::move(others)) {
    for (const Shard& shard : matrices) momenta_[shard.key()] = at::zeros_like(shard.data);
    for (const Round& round : rounds_) shared_.insert(round.matrices.begin(), round.matrices.end());
  }

  /// Ranks that have parts of a matrix must call this at the same time.
  std::string why_not_in_parts() const override {
    for (const Round& round : rounds_)
      if (round.cut)
        return "muon needs the whole matrix '" + round.matrices.front()->name +
               "', but it is sharded over ranks";
    return others_->why_not_in_parts();
  }

  void step(std::span<Shard> shards, const Update& update) override {
    const at::NoGradGuard no_grad;
    const bool skips = update.skip.defined() && update.skip.item<double>() != 0;
    std::vector<Shard> others;
    Parts parts;
    size_t here = 0;
    for (Shard& shard : shards) {
      const auto momentum = momenta_.find(shard.key());
      if (momentum == momenta_.end()) {
        others.push_back(shard);
        continue;
      }
      ++here;
      if (shard.grad.defined() && !skips) move(shard, momentum->second, update.lr, parts);
    }
    if (!others.empty()) others_->step(others, of_others(update));
    if (!skips) update_all(parts, update.lr, here == momenta_.size());
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    const auto momentum = momenta_.find(shard.key());
    if (momentum == momenta_.end()) return others_->state(shard);
    return {{"momentum_buffer", momentum->second}};
  }

  void evaluates(std::span<Shard> shards, bool does) override {
    std::vector<Shard> others;
    for (const Shard& shard : shards)
      if (!momenta_.contains(shard.key())) others.push_back(shard);
    others_->evaluates(others, does);
  }

 private:
  Update of_others(Update update) const {
    if (settings_.others_lr == 1) return update;
    update.lr *= settings_.others_lr;
    if (update.lr_tensor.defined()) update.lr_tensor = update.lr_tensor * settings_.others_lr;
    return update;
  }

  double scale_of(const Param& matrix) const {
    const auto rows = static_cast<double>(matrix.shape[0]), columns = static_cast<double>(matrix.shape[1]);
    return settings_.scale == Scale::match_rms ? 0.2 * std::sqrt(std::max(rows, columns))
                                               : std::sqrt(std::max(1.0, rows / columns));
  }

  /// Updates the momentum by the gradient, and applies the weight decay to the values. Puts the directions
  /// and values into `parts`.
  void move(const Shard& shard, Tensor& momentum, double lr, Parts& parts) const {
    const Tensor gradient = shard.grad.to(momentum.scalar_type());
    momentum.lerp_(gradient, 1 - settings_.momentum);
    const Tensor direction = settings_.nesterov ? gradient.lerp(momentum, settings_.momentum) : momentum;
    if (shard.decay) shard.data.mul_(1 - lr * weight_decay_);
    for (const Segment& segment : shard.segments)
      parts[segment.param] = {segment.layout, Shard::part(direction, segment),
                              Shard::part(shard.data, segment)};
  }

  /// `together`: every rank updates all its shards. If an optimizer is called for one shard at a time, ranks
  /// with copies may be called in different orders, and each works alone.
  void update_all(const Parts& parts, double lr, bool together) const {
    const auto orthogonal = [&](const Param& param, const Tensor& matrix) {
      return orthogonalize(matrix, settings_.steps, param.compute_dtype.value_or(matrix.scalar_type()));
    };
    const auto take = [&](const Param& param, const Tensor& whole) {
      const auto part = parts.find(&param);
      if (part == parts.end()) return;
      const Part& here = part->second;
      here.data.add_(here.layout.take(whole).reshape({-1}).to(here.data.device()), -lr * scale_of(param));
    };
    for (const auto& [param, part] : parts)
      if (!together || !shared_.contains(param))
        take(*param, orthogonal(*param, part.direction.view(param->shape)));
    if (together) run_rounds(rounds_, parts, orthogonal, take);
  }

  double weight_decay_;
  Settings settings_;
  std::vector<Round> rounds_;
  std::unordered_set<const Param*> shared_;  ///< parameters of the rounds
  std::unordered_map<const void*, Tensor> momenta_;
  std::unique_ptr<Optimizer> others_;
};
}  // namespace

Split split(std::span<Shard> shards) {
  Split split;
  for (const Shard& shard : shards) {
    const auto hidden = [](const Segment& segment) { return is_hidden_matrix(*segment.param); };
    const auto matrices = std::ranges::count_if(shard.segments, hidden);
    if (matrices != 0 && matrices != std::ssize(shard.segments))
      throw Error("muon: '" + std::ranges::find_if(shard.segments, hidden)->param->name +
                      "' shares a shard with '" +
                      std::ranges::find_if_not(shard.segments, hidden)->param->name +
                      "', which is not a matrix of the blocks",
                  "a plugin that shards parameters must keep them in separate shards");
    (matrices != 0 ? split.matrices : split.others).push_back(shard);
  }
  return split;
}

std::unique_ptr<Optimizer> make_optimizer(const TrainSpec& spec, const Settings& settings,
                                          std::span<Shard> matrices, std::vector<Round> rounds,
                                          std::unique_ptr<Optimizer> others) {
  return std::make_unique<Muon>(spec, settings, matrices, std::move(rounds), std::move(others));
}
}  // namespace optrush::muon
