#include "adafactor_optimizer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>

#include "optrush/error.h"

namespace optrush::adafactor {
namespace {
bool is_matrix(const Param& param) { return param.shape.size() == 2; }

/// The number of sums of a step over a whole parameter: for a matrix, the squares of the gradient by row and
/// by column; then the squares of the values.
int64_t sums_of(const Param& param) { return (is_matrix(param) ? param.shape[0] + param.shape[1] : 0) + 1; }
int64_t one_sum(const Param&) { return 1; }

/// Means of squared gradients.
struct Moments {
  int64_t steps = 0;
  Tensor rows, columns;  ///< of a matrix: (R), (C)
  Tensor each;           ///< of another shape: one for each element of the shard
};

class Adafactor final : public Optimizer {
 public:
  Adafactor(const Settings& settings, std::span<Shard> shards, std::vector<SplitOver> split)
      : settings_(settings), split_(std::move(split)) {
    for (const Shard& shard : shards) moments_[shard.key()] = moments_of(shard);
  }

  /// Ranks that have parts of a parameter must call this at the same time.
  std::string why_not_in_parts() const override {
    if (split_.empty()) return {};
    return "adafactor needs the norms of the whole parameter '" + split_.front().params.front()->name +
           "', but it is sharded over ranks";
  }

  void step(std::span<Shard> shards, const Update& update) override {
    const at::NoGradGuard no_grad;
    if (update.skip.defined() && update.skip.item<double>() != 0) return;
    std::vector<Part> parts;
    for (const Shard& shard : shards)
      if (shard.grad.defined()) parts.emplace_back(shard, moments_.at(shard.key()));
    Numbers sums;
    for (const Part& part : parts) sums[part.param] = sums_here(part);
    sum_over_ranks(split_, sums, sums_of);
    for (Part& part : parts) part.length = move_moments(part, sums.at(part.param), update.lr);
    // If ranks need the length of an update, the update is computed twice. Keeping all updates would take as
    // much memory as the gradients.
    Numbers squares;
    if (!split_.empty()) {
      for (const Part& part : parts) squares[part.param] = direction(part).square().sum();
      sum_over_ranks(split_, squares, one_sum);
    }
    for (const Part& part : parts) move_values(part, squares, update.lr);
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    Moments& moments = moments_.at(shard.key());
    const OptimizerState steps{
        .name = "step", .value = at::from_blob(&moments.steps, {}, at::kLong), .block = 0};
    if (moments.each.defined()) return {{"variance", moments.each}, steps};
    return {{.name = "row_var", .value = moments.rows, .block = 0},
            {.name = "col_var", .value = moments.columns, .block = 0},
            steps};
  }

 private:
  /// This rank's elements of a parameter, flat.
  struct Part {
    Part(const Shard& shard, Moments& its)
        : param(shard.segments.front().param),
          layout(&shard.segments.front().layout),
          values(shard.data.view(-1)),
          gradient(shard.grad.reshape(-1).to(wide_type(*param))),
          moments(&its),
          decay(shard.decay) {}
    const Param* param;
    const Layout* layout;
    Tensor values, gradient;
    Moments* moments;
    bool decay;
    Tensor length = {};  ///< of a step, before it is clipped
  };

  static Moments moments_of(const Shard& shard) {
    if (shard.segments.size() != 1)
      throw Error("adafactor: '" + shard.segments.front().param->name + "' shares a shard with '" +
                      shard.segments.back().param->name + "'",
                  "a plugin that shards parameters must keep them in separate shards");
    const Param& param = *shard.segments.front().param;
    const auto options = shard.data.options().dtype(wide_type(param));
    if (!is_matrix(param)) return {.each = at::zeros(shard.data.sizes(), options)};
    return {.rows = at::zeros({param.shape[0]}, options), .columns = at::zeros({param.shape[1]}, options)};
  }

  /// Calls `see` with each box of a matrix that this rank has: its first row and column, and its elements in
  /// `flat` as (rows, columns).
  static void for_boxes(const Part& part, const Tensor& flat,
                        const std::function<void(int64_t row, int64_t column, const Tensor&)>& see) {
    for (const Layout::Piece& piece : part.layout->pieces()) {
      const auto& [begin, end] = piece.box;
      see(begin[0], begin[1],
          flat.narrow(0, piece.at, piece.box.numel()).view({end[0] - begin[0], end[1] - begin[1]}));
    }
  }

  static Tensor sums_here(const Part& part) {
    const Tensor sums = at::zeros({sums_of(*part.param)}, part.gradient.options());
    sums.narrow(0, sums.numel() - 1, 1).copy_(part.values.to(sums.scalar_type()).square().sum());
    if (is_matrix(*part.param))
      for_boxes(part, part.gradient, [&](int64_t row, int64_t column, const Tensor& box) {
        const Tensor squares = box.square();
        sums.narrow(0, row, box.size(0)).add_(squares.sum(1));
        sums.narrow(0, part.param->shape[0] + column, box.size(1)).add_(squares.sum(0));
      });
    return sums;
  }

  /// Adds the gradient to the means. Returns the length of the step before clipping.
  Tensor move_moments(const Part& part, const Tensor& sums, double lr) const {
    Moments& moments = *part.moments;
    const auto steps = static_cast<double>(++moments.steps);
    const double weight = std::pow(steps, settings_.decay);  // 1 - beta2
    if (moments.each.defined()) {
      moments.each.view(-1).lerp_(part.gradient.square(), weight);
    } else {
      const int64_t rows = part.param->shape[0], columns = part.param->shape[1];
      moments.rows.lerp_(sums.narrow(0, 0, rows) / columns, weight);
      moments.columns.lerp_(sums.narrow(0, rows, columns) / rows, weight);
    }
    const Tensor size = (sums.select(0, sums.numel() - 1) / part.param->numel()).sqrt_();
    return size.clamp_min_(settings_.eps2).mul_(std::min(lr, 1 / std::sqrt(steps)));
  }

  /// The gradient over the square root of its second moments.
  Tensor direction(const Part& part) const {
    const double eps = settings_.eps1;
    const Moments& moments = *part.moments;
    if (moments.each.defined())
      return moments.each.view(-1).clamp_min(eps * eps).rsqrt_().mul_(part.gradient);
    const Tensor direction = at::empty_like(part.gradient);
    const Tensor rows = moments.rows / moments.rows.mean().clamp_min(eps);
    for_boxes(part, direction, [&](int64_t row, int64_t column, const Tensor& box) {
      box.copy_(rows.narrow(0, row, box.size(0)).unsqueeze(1))
          .mul_(moments.columns.narrow(0, column, box.size(1)));
    });
    return direction.clamp_min_(eps * eps).rsqrt_().mul_(part.gradient);
  }

  /// `squares`: sums of squares of the updates, if ranks have added them up.
  void move_values(const Part& part, const Numbers& squares, double lr) const {
    if (part.decay && settings_.weight_decay != 0) part.values.mul_(1 - lr * settings_.weight_decay);
    const Tensor direction = this->direction(part);
    const auto known = squares.find(part.param);
    const Tensor sum = known != squares.end() ? known->second : direction.square().sum();
    const Tensor excess = (sum / part.param->numel()).sqrt_().div_(settings_.threshold).clamp_min_(1);
    part.values.sub_((direction * (part.length / excess)).to(part.values.scalar_type()));
  }

  Settings settings_;
  std::vector<SplitOver> split_;
  std::unordered_map<const void*, Moments> moments_;
};
}  // namespace

double bytes_of_sums(const SplitOver& group) {
  int64_t numbers = 0;
  for (const Param* param : group.params) numbers += sums_of(*param) + one_sum(*param);
  const auto ranks = static_cast<double>(group.group->size());
  return 2 * (ranks - 1) / ranks *
         static_cast<double>(numbers * static_cast<int64_t>(at::elementSize(group.type)));
}

std::unique_ptr<Optimizer> make_optimizer(const Settings& settings, std::span<Shard> shards,
                                          std::vector<SplitOver> split) {
  return std::make_unique<Adafactor>(settings, shards, std::move(split));
}
}  // namespace optrush::adafactor
