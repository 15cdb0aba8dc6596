#include "model/experts.h"

#include <ATen/Functions.h>

#include <utility>

#include "model/binder.h"
#include "model/operators.h"
#include "optrush/forecast.h"

namespace optrush {
namespace {
/// The rows of a batch, each once for every expert that it passes, in the order of the experts. T tokens, K
/// experts per token, N = T K rows.
struct Route {
  Tensor weights_N;             ///< in the order of the experts, in x's type
  Tensor order_N, positions_N;  ///< row of an order by tokens, and back
  std::vector<int64_t> counts;  ///< of each expert
};

/// A forecast has no values: it takes all experts for equally busy.
std::vector<int64_t> equal_counts(int64_t rows, int64_t experts) {
  std::vector<int64_t> counts(static_cast<size_t>(experts), rows / experts);
  for (int64_t i = 0; i < rows % experts; ++i) ++counts[static_cast<size_t>(i)];
  return counts;
}

std::vector<int64_t> counts_of(const Tensor& experts_N, int64_t experts) {
  if (is_forecast(experts_N)) return equal_counts(experts_N.numel(), experts);
  const Tensor counts = at::bincount(experts_N, {}, experts).cpu();
  return {counts.const_data_ptr<int64_t>(), counts.const_data_ptr<int64_t>() + experts};
}

Route route(const Tensor& logits_TE, int64_t per_token, bool normalize, at::ScalarType type) {
  const Tensor shares_TE = at::softmax(logits_TE, -1, plain::accumulate_type(logits_TE));
  auto [weights_TK, experts_TK] = at::topk(shares_TE, per_token, -1);
  if (normalize) weights_TK = weights_TK / weights_TK.sum(-1, /*keepdim=*/true);
  const Tensor experts_N = experts_TK.flatten();
  const Tensor order_N = at::argsort(experts_N, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  return {.weights_N = weights_TK.to(type).flatten().index_select(0, order_N),
          .order_N = order_N,
          .positions_N = at::argsort(order_N),
          .counts = counts_of(experts_N, logits_TE.size(1))};
}

struct Experts {
  Ops::Router::Fn router;
  std::vector<UnitFunction> experts;
  int64_t per_token;
  bool normalize;

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    const Tensor x_TD = x_BSD.flatten(0, 1);
    const Route way = route(router(x_TD), per_token, normalize, x_TD.scalar_type());
    // Copies of a token lie side by side before they are sorted: their gradients are added in that order,
    // the same in each run.
    const Tensor copies_ND = x_TD.unsqueeze(1).expand({-1, per_token, -1}).flatten(0, 1);
    Tensors parts = copies_ND.index_select(0, way.order_N).split_with_sizes(way.counts);
    for (size_t expert = 0; expert < parts.size(); ++expert)
      parts[expert] = experts[expert](parts[expert].unsqueeze(0), batch).squeeze(0);
    const Tensor weighted_ND = at::cat(parts) * way.weights_N.unsqueeze(1);
    return weighted_ND.index_select(0, way.positions_N)
        .unflatten(0, {-1, per_token})
        .sum(1)
        .to(x_TD.scalar_type())
        .view(x_BSD.sizes());
  }
};
}  // namespace

std::unique_ptr<Unit> declare_experts(Params& params, const std::string& path, int64_t layer,
                                      const ExpertsShape& shape) {
  auto unit = make_unit(path, "experts", layer);
  Param& gate = params.add({.name = path + ".gate.weight",
                            .shape = {shape.count, shape.expert.dim},
                            .axes = {"experts", "model"},
                            .init = shape.router,
                            .dtype = shape.expert.dtype});
  const Module& router = unit->modules.emplace_back(Module{path + ".gate", "router", layer, {&gate}});
  for (int64_t expert = 0; expert < shape.count; ++expert) {
    unit->children.push_back(
        declare_mlp(params, path + ".experts." + std::to_string(expert), layer, shape.expert));
    unit->children.back()->share_of_tokens =
        static_cast<double>(shape.per_token) / static_cast<double>(shape.count);
  }
  unit->build = [&router, &experts = unit->children, per_token = shape.per_token,
                 normalize = shape.normalize](const Binder& bind) -> UnitFunction {
    Experts built{bind.router(router), {}, per_token, normalize};
    for (const auto& expert : experts) built.experts.push_back(bind.unit(*expert));
    return built;
  };
  return unit;
}
}  // namespace optrush
