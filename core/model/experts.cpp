#include "model/experts.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "model/binder.h"
#include "model/operators.h"
#include "optrush/forecast.h"
#include "optrush/recipe.h"
#include "optrush/scopes.h"

namespace optrush {
namespace {
/// The assignment of tokens to experts. Each token has one row per expert that it passes; rows are sorted by
/// expert. T tokens, K experts per token, E experts, N = T K rows.
struct Route {
  Tensor weights_N;             ///< routing weights, sorted by expert, in x's type
  Tensor order_N, positions_N;  ///< permutation from token order to expert order, and its inverse
  Tensor counts_E;              ///< number of rows of each expert
};

/// A forecast has no values, so it gives all experts the same number of rows.
std::vector<int64_t> equal_counts(int64_t rows, int64_t experts) {
  std::vector<int64_t> counts(static_cast<size_t>(experts), rows / experts);
  for (int64_t i = 0; i < rows % experts; ++i) ++counts[static_cast<size_t>(i)];
  return counts;
}

std::vector<int64_t> on_host(const Tensor& counts_E, int64_t rows) {
  if (is_forecast(counts_E)) return equal_counts(rows, counts_E.numel());
  const Tensor counts = counts_E.cpu();
  return {counts.const_data_ptr<int64_t>(), counts.const_data_ptr<int64_t>() + counts.numel()};
}

Route route(const Routed& routed, int64_t experts, at::ScalarType type) {
  const Tensor experts_N = routed.experts.flatten();
  const Tensor order_N = at::argsort(experts_N, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  // A scatter inverts the permutation; a second sort is not needed.
  const Tensor rows_N = at::arange(order_N.numel(), order_N.options());
  return {.weights_N = routed.weights.to(type).flatten().index_select(0, order_N),
          .order_N = order_N,
          .positions_N = at::empty_like(order_N).scatter_(0, order_N, rows_N),
          // Not at::bincount, for which the host would wait.
          .counts_E =
              at::zeros({experts}, experts_N.options()).scatter_add_(0, experts_N, at::ones_like(experts_N))};
}

/// Computes one expert after another.
struct Experts {
  std::vector<UnitFunction> experts;

  Tensor operator()(const Tensor& rows_ND, const Tensor& counts_E, const Batch& batch) const {
    Tensors parts = rows_ND.split_with_sizes(on_host(counts_E, rows_ND.size(0)));
    for (size_t expert = 0; expert < parts.size(); ++expert)
      parts[expert] = experts[expert](parts[expert].unsqueeze(0), batch).squeeze(0);
    return at::cat(parts);
  }
};

/// MixtureShape::scaled: of the router's input (D), of the rows (D) and of the experts' weights (E).
struct Scales {
  const Param *router = nullptr, *rows = nullptr, *experts = nullptr;
};

Tensor times(const Tensor& x, const Param* weight) {
  return weight == nullptr ? x : x * weight->value().to(x.scalar_type());
}

struct RoutedExperts {
  Ops::Router::Fn router;
  Ops::Routing::Fn routing;
  Ops::Experts::Fn experts;
  RoutingArgs args;
  const Param* choice_bias;  ///< null: none
  Scales scales;

  /// Padding passes no router and no expert, and gets 0.
  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    const Tensor x_TD = x_BSD.flatten(0, 1), &filled = batch.filled;
    if (!filled.defined()) return routed(x_TD, batch).view(x_BSD.sizes());
    const Tensor out = routed(x_TD.index_select(0, filled), batch);
    return at::zeros_like(x_TD).index_copy(0, filled, out).view(x_BSD.sizes());
  }

 private:
  Tensor routed(const Tensor& x_TD, const Batch& batch) const {
    const int64_t per_token = args.per_token;
    const double unit = 1 / std::sqrt(static_cast<double>(x_TD.size(1)));
    const Tensor logits_TE = router(scales.router == nullptr ? x_TD : times(x_TD, scales.router) * unit);
    const Tensor rows_TD = times(x_TD, scales.rows);
    RoutingArgs biased = args;
    if (choice_bias != nullptr) biased.bias = choice_bias->value().detach();
    Routed chosen = routing(logits_TE, biased);
    if (scales.experts != nullptr) {
      const Tensor factors_E = scales.experts->value().to(chosen.weights.scalar_type());
      chosen.weights =
          chosen.weights * factors_E.index_select(0, chosen.experts.flatten()).view_as(chosen.experts);
    }
    const Route way = route(chosen, logits_TE.size(1), x_TD.scalar_type());
    // The copies of a token are adjacent before sorting, so their gradients are always added in the same
    // order.
    const Tensor copies_ND = rows_TD.unsqueeze(1).expand({-1, per_token, -1}).flatten(0, 1);
    const Tensor out_ND = experts(copies_ND.index_select(0, way.order_N), way.counts_E, batch);
    const Tensor weighted_ND = out_ND * way.weights_N.unsqueeze(1);
    return weighted_ND.index_select(0, way.positions_N)
        .unflatten(0, {-1, per_token})
        .sum(1)
        .to(x_TD.scalar_type());
  }
};

/// Routed experts and a shared expert.
struct Mixture {
  UnitFunction routed, shared;
  const Param* gate;  ///< null: the shared expert has weight 1

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    const Tensor weight_BS1 = gate == nullptr ? Tensor() : at::sigmoid(at::linear(x_BSD, gate->value()));
    const Tensor routed_BSD = routed(x_BSD, batch), shared_BSD = shared(x_BSD, batch);
    if (gate == nullptr) return routed_BSD + shared_BSD;
    return routed_BSD + (weight_BS1 * shared_BSD).to(x_BSD.scalar_type());
  }
};

Param& add_gate(Params& params, const std::string& path, int64_t outputs, const MixtureShape& shape) {
  return params.add({.name = path + ".weight",
                     .shape = {outputs, shape.expert.dim},
                     .axes = {"experts", "model"},
                     .init = shape.router,
                     .dtype = shape.expert.dtype});
}

std::unique_ptr<Unit> declare_experts(Params& params, const std::string& path, int64_t layer,
                                      const MixtureShape& shape) {
  auto unit = make_unit(path, UnitRole::experts, layer);
  const std::string gate_path = path + (shape.scaled ? ".gate.proj" : ".gate");
  Param& gate = add_gate(params, gate_path, shape.count, shape);
  Module& router = unit->modules.emplace_back(Module{gate_path, "router", layer, {&gate}});
  Scales scales;
  if (shape.scaled) {
    const auto scale = [&](const char* name, const char* axis, int64_t size) {
      return &params.add(vector_param(path + name, size, axis, constant(1), shape.expert.dtype));
    };
    Param* of_router = scale(".gate.scale", "model", shape.expert.dim);
    Param* of_experts = scale(".gate.per_expert_scale", "experts", shape.count);
    Param* of_rows = scale(".pre_feedforward_layernorm_2.weight", "model", shape.expert.dim);
    unit->modules.emplace_back(Module{path + ".gate", "scales", layer, {of_router, of_experts, of_rows}});
    scales = {of_router, of_rows, of_experts};
  }
  const Param* choice_bias = nullptr;
  if (shape.form.bias != RouterBias::none) {
    const bool of_choice = shape.form.bias == RouterBias::choice;
    // A narrow type would change the choice of experts.
    const auto type = of_choice ? at::promote_types(shape.expert.dtype, at::kFloat) : shape.expert.dtype;
    Param& bias = params.add(vector_param(path + (of_choice ? ".gate.e_score_correction_bias" : ".gate.bias"),
                                          shape.count, "experts", constant(0), type));
    bias.trainable = !of_choice;
    router.params.push_back(&bias);
    if (of_choice) choice_bias = &bias;
  }
  const Module& experts = unit->modules.emplace_back(Module{path + ".experts", "experts", layer, {}});
  for (int64_t expert = 0; expert < shape.count; ++expert) {
    unit->children.push_back(
        declare_mlp(params, path + ".experts." + std::to_string(expert), layer, shape.expert));
    unit->children.back()->share_of_tokens =
        static_cast<double>(shape.per_token) / static_cast<double>(shape.count);
  }
  unit->build = [&router, &experts, &children = unit->children,
                 args = RoutingArgs{shape.per_token, shape.normalize, shape.form}, choice_bias,
                 scales](const Binder& bind) -> UnitFunction {
    Experts plain;
    for (const auto& expert : children) plain.experts.push_back(bind.unit(*expert));
    return RoutedExperts{bind.router(router),
                         bind.routing(router),
                         bind.experts(experts, std::move(plain)),
                         args,
                         choice_bias,
                         scales};
  };
  return unit;
}
}  // namespace

std::unique_ptr<Unit> declare_mixture(Params& params, const std::string& path, int64_t layer,
                                      const MixtureShape& shape) {
  if (shape.shared_ffn_dim == 0) return declare_experts(params, path, layer, shape);
  auto unit = make_unit(path, UnitRole::mixture, layer);
  const Unit& routed = *unit->children.emplace_back(declare_experts(params, path, layer, shape));
  MlpShape wide = shape.expert;
  wide.ffn_dim = shape.shared_ffn_dim;
  const Unit& shared =
      *unit->children.emplace_back(declare_mlp(params, path + ".shared_expert", layer, wide));
  const std::string gate_path = path + ".shared_expert_gate";
  const Param* gate = nullptr;
  if (shape.shared_gate) {
    Param& weight = add_gate(params, gate_path, 1, shape);
    unit->modules.emplace_back(Module{gate_path, "shared_expert_gate", layer, {&weight}});
    gate = &weight;
  }
  unit->build = [&routed, &shared, gate](const Binder& bind) -> UnitFunction {
    return Mixture{bind.unit(routed), bind.unit(shared), gate};
  };
  return unit;
}

std::unique_ptr<Unit> declare_experts_beside_mlp(Params& params, const std::string& block, int64_t layer,
                                                 const MixtureShape& shape, const MlpShape& wide,
                                                 const NormArgs& args) {
  auto unit = make_unit(block + ".mlp", UnitRole::mixture, layer);
  const Unit& routed = *unit->children.emplace_back(declare_experts(params, block, layer, shape));
  const Unit& mlp = *unit->children.emplace_back(declare_mlp(params, block + ".mlp", layer, wide));
  const auto norm = [&](const char* name) -> const Module& {
    Param& weight =
        params.add(vector_param(block + name + ".weight", wide.dim, "model", constant(1), wide.dtype));
    return unit->modules.emplace_back(Module{block + name, "norm", layer, {&weight}});
  };
  const Param* before = norm(".pre_feedforward_layernorm").params.front();
  const Module& after_mlp = norm(".post_feedforward_layernorm_1");
  const Module& after_experts = norm(".post_feedforward_layernorm_2");
  unit->build = [&routed, &mlp, before, &after_mlp, &after_experts,
                 args](const Binder& bind) -> UnitFunction {
    return [=, routed = bind.unit(routed), mlp = bind.unit(mlp), mlp_norm = bind.norm(after_mlp),
            experts_norm = bind.norm(after_experts)](const Tensor& x_BSD, const Batch& batch) {
      return mlp_norm(mlp(times(x_BSD, before), batch), args) + experts_norm(routed(x_BSD, batch), args);
    };
  };
  return unit;
}

namespace {
/// Number of rows of each expert so far, of this rank.
class RowsOfExperts {
 public:
  RowsOfExperts(int64_t layers, int64_t experts) : layers_(layers), experts_(experts) {}

  void add(int64_t layer, const Tensor& counts_E) {
    const at::NoGradGuard no_grad;
    Tensor& sum = rows_[layer];
    sum = sum.defined() && sum.device() == counts_E.device() ? sum + counts_E : counts_E;
  }
  /// Mean, over the layers that have rows, of a number of the rows of all ranks. Ranks that train on the same
  /// tokens count equally often. All ranks call it.
  double mean(const Mesh& mesh, const std::function<double(const Tensor& rows_E)>& of_layer) const {
    const Tensor all = at::zeros({layers_, experts_}, at::kDouble);
    for (const auto& [layer, rows_E] : rows_) all[layer].copy_(rows_E);
    mesh.group(mesh.all()).all_reduce(all).wait();
    double sum = 0, layers = 0;
    for (const Tensor& rows_E : all.unbind()) {
      if (rows_E.sum().item<double>() == 0) continue;
      sum += of_layer(rows_E);
      ++layers;
    }
    return layers == 0 ? 0 : sum / layers;
  }

 private:
  int64_t layers_, experts_;
  std::map<int64_t, Tensor> rows_;  ///< (E), by layer
};
}  // namespace

void count_rows_of_experts(Recipe& recipe, int64_t layers, int64_t experts) {
  const auto rows = std::make_shared<RowsOfExperts>(layers, experts);
  recipe.ops.experts.wrap(Phase::measure,
                          [rows](Ops::Experts::Fn inner, const Module& module) -> Ops::Experts::Fn {
                            return [rows, layer = module.layer, inner = std::move(inner)](
                                       const Tensor& x, const Tensor& counts, const Batch& batch) {
                              if (!evaluating()) rows->add(layer, counts);
                              return inner(x, counts, batch);
                            };
                          },
                          {.trace = Trace::aten, .predictable = true});
  const auto count = [&](const char* name, const char* unit, double (*of_layer)(const Tensor& rows_E)) {
    recipe.counter({.name = name, .unit = unit, .over_ranks = OverRanks::mean},
                   [rows, of_layer, &mesh = recipe.mesh] { return rows->mean(mesh, of_layer); });
  };
  count("rows of the busiest expert", "of the mean",
        [](const Tensor& rows_E) { return (rows_E.max() / rows_E.mean()).item<double>(); });
  count("experts without rows", "per layer",
        [](const Tensor& rows_E) { return rows_E.eq(0).sum().item<double>(); });
}
}  // namespace optrush
