#include "model/router_statistics.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "optrush/recipe.h"
#include "optrush/scopes.h"

namespace optrush {
namespace {
/// Number of rows of each expert (E) so far, by layer.
class RowsOfExperts {
 public:
  void add(int64_t layer, const Tensor& counts_E) {
    const at::NoGradGuard no_grad;
    Tensor& sum = rows_[layer];
    sum = sum.defined() && sum.device() == counts_E.device() ? sum + counts_E : counts_E;
  }
  /// Mean over the layers of a number per layer; 0 before the first step.
  double mean(const std::function<double(const Tensor& rows_E)>& of_layer) const {
    double sum = 0;
    for (const auto& [layer, rows_E] : rows_) sum += of_layer(rows_E.cpu().to(at::kDouble));
    return rows_.empty() ? 0 : sum / static_cast<double>(rows_.size());
  }

 private:
  std::map<int64_t, Tensor> rows_;
};
}  // namespace

void count_rows_of_experts(Recipe& recipe) {
  const auto rows = std::make_shared<RowsOfExperts>();
  recipe.ops.experts.wrap(Phase::measure,
                          [rows](Ops::Experts::Fn inner, const Module& module) -> Ops::Experts::Fn {
                            return [rows, layer = module.layer, inner = std::move(inner)](
                                       const Tensor& x, const Tensor& counts, const Batch& batch) {
                              if (!evaluating()) rows->add(layer, counts);
                              return inner(x, counts, batch);
                            };
                          },
                          {.trace = Trace::aten, .predictable = true});
  recipe.counter(
      {.name = "rows of the busiest expert", .unit = "of the mean", .over_ranks = OverRanks::mean}, [rows] {
        return rows->mean(
            [](const Tensor& rows_E) { return (rows_E.max() / rows_E.mean().clamp_min(1)).item<double>(); });
      });
  recipe.counter(
      {.name = "experts without rows", .unit = "per layer", .over_ranks = OverRanks::mean},
      [rows] { return rows->mean([](const Tensor& rows_E) { return rows_E.eq(0).sum().item<double>(); }); });
}
}  // namespace optrush
