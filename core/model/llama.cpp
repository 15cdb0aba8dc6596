// Llama (arXiv:2302.13971), and the decoders that LlamaSpec describes as variants of it. Variants are chosen
// when a unit is built. Shapes: B batch, S sequence, D model width.
#include "model/kinds.h"

#include <ATen/Functions.h>

#include <utility>

#include "model/attention.h"
#include "model/binder.h"
#include "model/carried.h"
#include "model/declare.h"
#include "model/delta_net.h"
#include "model/experts.h"
#include "model/latent_attention.h"
#include "model/mamba.h"
#include "model/operators.h"
#include "model/per_layer_inputs.h"
#include "model/rotary.h"
#include "optrush/recipe.h"
#include "params/init.h"

namespace optrush {
namespace {
std::array<Tensor, 2> add_norm_without_weight(const Tensor& x, const Tensor& delta, const NormArgs& args) {
  const Tensor sum = x + delta;
  return {sum, plain::norm(sum, {}, {}, args)};
}

UnitFunction scaled(UnitFunction function, double factor) {
  if (factor == 1) return function;
  return [=, function = std::move(function)](const Tensor& x, const Batch& batch) {
    return function(x, batch) * factor;
  };
}

UnitFunction with_inputs(UnitFunction embed, PerLayerInputs inputs) {
  return [embed = std::move(embed), inputs = std::move(inputs)](const Tensor& x, const Batch& batch) {
    const Tensor embedded_BSD = embed(x, batch);
    return at::cat({embedded_BSD, inputs(embedded_BSD, batch)}, -1);
  };
}

UnitFunction normed(UnitFunction function, Ops::Norm::Fn norm, const NormArgs& args) {
  return [=, function = std::move(function), norm = std::move(norm)](const Tensor& x, const Batch& batch) {
    return norm(function(x, batch), args);
  };
}

struct Block {
  Ops::AddNorm::Fn attention_norm, mlp_norm;
  UnitFunction attention, mlp;
  NormArgs norm;
  const Param* scale;  ///< (1); null: 1

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    const auto [stream_BSD, first_BSD] = attention_norm(x_BSD, {}, norm);
    const auto [h_BSD, second_BSD] = mlp_norm(stream_BSD, attention(first_BSD, batch), norm);
    return scaled(h_BSD + mlp(second_BSD, batch));
  }

  Tensor scaled(const Tensor& out_BSD) const {
    return scale == nullptr ? out_BSD : out_BSD * scale->value().to(out_BSD.scalar_type());
  }
};

/// A block of attention or linear attention alone.
struct BlockWithoutMlp {
  Ops::AddNorm::Fn mixer_norm;
  UnitFunction mixer;
  NormArgs norm;

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    const auto [stream_BSD, normed_BSD] = mixer_norm(x_BSD, {}, norm);
    return stream_BSD + mixer(normed_BSD, batch);
  }
};

/// A block of a model whose stream carries more than the hidden state.
struct CarryingBlock {
  Block plain;  ///< with the parts that it has in common with other blocks
  CarriedStream stream;
  UnitFunction keys;  ///< makes keys and values for itself and later layers; null: it does not
  bool reads_keys;    ///< its attention gets keys and values beside its input
  PerLayerStep step;  ///< null: none

  Tensor operator()(const Tensor& given, const Batch& batch) const {
    Carried parts = stream.split(given);
    const auto [stream_BSD, first_BSD] = plain.attention_norm(parts.hidden_BSD, {}, plain.norm);
    if (keys) stream.keys_values(parts) = keys(first_BSD, batch);
    const Tensor attended_BSD =
        plain.attention(reads_keys ? at::cat({first_BSD, stream.keys_values(parts)}, -1) : first_BSD, batch);
    const auto [h_BSD, second_BSD] = plain.mlp_norm(stream_BSD, attended_BSD, plain.norm);
    Tensor out_BSD = h_BSD + plain.mlp(second_BSD, batch);
    if (step) out_BSD = out_BSD + step(out_BSD, parts.input_BSP);
    parts.hidden_BSD = plain.scaled(out_BSD);
    return stream.joined(parts);
  }
};

/// A block with norms only behind attention and MLP.
struct BlockNormedAfter {
  UnitFunction attention, mlp;

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    const Tensor h_BSD = x_BSD + attention(x_BSD, batch);
    return h_BSD + mlp(h_BSD, batch);
  }
};

Ops::Linear::Fn soft_capped(Ops::Linear::Fn logits, double cap) {
  if (cap == 0) return logits;
  return [cap, logits = std::move(logits)](const Tensor& x) { return plain::soft_capped(logits(x), cap); };
}

struct Head {
  Ops::Norm::Fn final_norm;
  Ops::HeadParts parts;
  Ops::HeadLoss::Fn loss;
  NormArgs norm;
  double logits_divisor;

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    Tensor normed_BSD = final_norm(x_BSD, norm);
    // same as dividing the logits, because the head is linear
    if (logits_divisor != 1) normed_BSD = normed_BSD / logits_divisor;
    return batch.labels.defined() ? loss(normed_BSD, batch, parts) : parts.logits(normed_BSD);
  }
};

/// Declares parameters and modules, and holds their shared settings.
class LlamaDeclaration {
 public:
  LlamaDeclaration(const LlamaSpec& spec, Params& params, at::ScalarType dtype)
      : spec_(spec), params_(params), dtype_(dtype) {}

  std::unique_ptr<Unit> embed() {
    auto unit = make_unit("model.embed_tokens", UnitRole::embed, -1);
    auto& weight = matrix("model.embed_tokens.weight", {spec_.vocab_size, spec_.dim}, {"vocab", "model"});
    const Module& module =
        unit->modules.emplace_back(Module{"model.embed_tokens", "embedding", -1, {&weight}});
    // Rounded like in transformers, for Gemma.
    const auto scale = at::scalar_tensor(spec_.embedding_scale, dtype_).item<double>();
    const auto inputs = declare_per_layer_inputs(spec_, params_, *unit, dtype_);
    unit->build = [&module, scale, inputs](const Binder& bind) -> UnitFunction {
      const UnitFunction embed = [embedding = bind.embedding(module)](const Tensor&, const Batch& batch) {
        return embedding(batch.tokens);
      };
      return inputs ? with_inputs(scaled(embed, scale), inputs(bind)) : scaled(embed, scale);
    };
    return unit;
  }

  std::unique_ptr<Unit> block(int64_t layer) {
    if (!spec_.has_mlp(layer)) return block_without_mlp(layer);
    return spec_.norm_placement == NormPlacement::after ? block_normed_after(layer)
                                                        : block_normed_before(layer);
  }

  std::unique_ptr<Unit> head() {
    auto unit = make_unit("lm_head", UnitRole::head, -1);
    const Module& final_norm = norm(*unit, "model.norm", "norm");
    auto& weight = spec_.tie_embeddings
                       ? params_.at("model.embed_tokens.weight")
                       : matrix("lm_head.weight", {spec_.vocab_size, spec_.dim}, {"vocab", "model"});
    const Module& logits = unit->modules.emplace_back(Module{"lm_head", "linear", -1, {&weight}});
    const Module& loss = unit->modules.emplace_back(Module{"loss", "head_loss", -1, {&weight}});
    unit->build = [&, args = norm_args(), divisor = spec_.logits_divisor,
                   cap = spec_.logits_soft_cap](const Binder& bind) -> UnitFunction {
      Ops::HeadParts parts{.logits = soft_capped(bind.linear(logits), cap), .soft_cap = cap};
      return Head{bind.norm(final_norm), std::move(parts), bind.head_loss(loss), args, divisor};
    };
    return unit;
  }

 private:
  std::unique_ptr<Unit> block_normed_before(int64_t layer) {
    auto unit = make_unit(block_path(layer), UnitRole::block, layer);
    const bool both = spec_.norm_placement == NormPlacement::both;
    const Module& first = norm(*unit, unit->path + ".input_layernorm", "add_norm");
    const Module* after_attention =
        both ? &norm(*unit, unit->path + ".post_attention_layernorm", "norm") : nullptr;
    // With experts beside the MLP, each of both has a weight of this norm.
    const bool weighed = !spec_.experts_beside_mlp || !spec_.has_experts(layer);
    const std::string second_path =
        unit->path + (both ? ".pre_feedforward_layernorm" : ".post_attention_layernorm");
    const Module* second = weighed ? &norm(*unit, second_path, "add_norm") : nullptr;
    const Module* after_mlp =
        both ? &norm(*unit, unit->path + ".post_feedforward_layernorm", "norm") : nullptr;
    const bool shares = spec_.shares_kv(layer);
    const auto keys = shares && spec_.kv_layer(layer) == layer
                          ? declare_shared_keys(spec_, params_, *unit, dtype_)
                          : nullptr;
    const Parts parts = add_parts(*unit);
    const auto step = declare_per_layer_step(spec_, params_, *unit, dtype_);
    const Param* scale = layer_scale(*unit);
    const auto plain = [&, second, scale, added = added_by(parts, after_attention, after_mlp),
                        args = norm_args()](const Binder& bind) {
      auto [attention, mlp] = added(bind);
      return Block{bind.add_norm(first),
                   second == nullptr ? add_norm_without_weight : bind.add_norm(*second),
                   std::move(attention),
                   std::move(mlp),
                   args,
                   scale};
    };
    unit->build = plain;
    if (spec_.carries())
      unit->build = [=, stream = CarriedStream(spec_, layer)](const Binder& bind) -> UnitFunction {
        return CarryingBlock{plain(bind), stream, keys ? keys(bind) : nullptr, shares,
                             step ? step(bind) : nullptr};
      };
    return unit;
  }

  std::unique_ptr<Unit> block_without_mlp(int64_t layer) {
    auto unit = make_unit(block_path(layer), UnitRole::block, layer);
    const Module& first = norm(*unit, unit->path + ".input_layernorm", "add_norm");
    const Unit& mixer = *unit->children.emplace_back(this->mixer(unit->path, layer));
    unit->build = [&, args = norm_args(), scale = spec_.residual_scale](const Binder& bind) -> UnitFunction {
      return BlockWithoutMlp{bind.add_norm(first), scaled(bind.unit(mixer), scale), args};
    };
    return unit;
  }

  std::unique_ptr<Unit> block_normed_after(int64_t layer) {
    auto unit = make_unit(block_path(layer), UnitRole::block, layer);
    const Parts parts = add_parts(*unit);
    const Module& first = norm(*unit, unit->path + ".post_attention_layernorm", "norm");
    const Module& second = norm(*unit, unit->path + ".post_feedforward_layernorm", "norm");
    unit->build = [added = added_by(parts, &first, &second)](const Binder& bind) -> UnitFunction {
      auto [attention, mlp] = added(bind);
      return BlockNormedAfter{std::move(attention), std::move(mlp)};
    };
    return unit;
  }

  struct Parts {
    const Unit *attention, *mlp;
  };
  Parts add_parts(Unit& block) {
    const Unit& attention = *block.children.emplace_back(this->mixer(block.path, block.layer));
    const Unit& mlp = *block.children.emplace_back(this->mlp(block.path, block.layer));
    return {&attention, &mlp};
  }

  /// The functions that attention and MLP add to the residual stream. The norms behind them may be null.
  std::function<std::array<UnitFunction, 2>(const Binder&)> added_by(const Parts& parts,
                                                                     const Module* attention_norm,
                                                                     const Module* mlp_norm) const {
    const auto one = [args = norm_args(), scale = spec_.residual_scale](const Binder& bind, const Unit& unit,
                                                                        const Module* norm) {
      UnitFunction function = bind.unit(unit);
      if (norm != nullptr) function = normed(std::move(function), bind.norm(*norm), args);
      return scaled(std::move(function), scale);
    };
    return [=](const Binder& bind) -> std::array<UnitFunction, 2> {
      return {one(bind, *parts.attention, attention_norm), one(bind, *parts.mlp, mlp_norm)};
    };
  }

  std::unique_ptr<Unit> mlp(const std::string& block, int64_t layer) {
    const std::string path = block + ".mlp";
    if (!spec_.has_experts(layer)) return declare_mlp(params_, path, layer, mlp_shape(layer));
    MlpShape expert = mlp_shape(layer);
    expert.ffn_dim = spec_.expert_ffn_dim != 0 ? spec_.expert_ffn_dim : spec_.ffn_dim;
    expert.biased = spec_.expert_bias;
    const MixtureShape shape{.expert = expert,
                             .router = normal(spec_.init_std),
                             .count = spec_.n_experts,
                             .per_token = spec_.experts_per_token,
                             .normalize = spec_.normalize_router,
                             .form = spec_.router,
                             .shared_ffn_dim = spec_.shared_expert_ffn_dim,
                             .shared_gate = spec_.shared_expert_gate,
                             .scaled = spec_.experts_beside_mlp};
    return spec_.experts_beside_mlp
               ? declare_experts_beside_mlp(params_, block, layer, shape, mlp_shape(layer), norm_args())
               : declare_mixture(params_, path, layer, shape);
  }

  /// The part of a block that mixes positions.
  std::unique_ptr<Unit> mixer(const std::string& block, int64_t layer) {
    if (spec_.has_linear_attention(layer))
      return spec_.has_mamba() ? declare_mamba(spec_, params_, block + ".mamba", layer, dtype_)
                               : declare_delta_net(spec_, params_, block + ".linear_attn", layer, dtype_);
    const std::string path = block + ".self_attn";
    return spec_.has_latents() ? declare_latent_attention(spec_, params_, path, layer, dtype_)
                               : declare_attention(spec_, params_, path, layer, dtype_);
  }

  /// Null if blocks have no such factor. It is a buffer in transformers, which no optimizer changes.
  const Param* layer_scale(Unit& block) {
    if (!spec_.layer_scale) return nullptr;
    const std::string path = block.path + ".layer_scalar";
    Param& scale = params_.add(vector_param(path, 1, "one", constant(1), dtype_));
    scale.trainable = false;
    block.modules.emplace_back(Module{path, "layer_scale", block.layer, {&scale}});
    return &scale;
  }

  const Module& norm(Unit& unit, const std::string& path, const std::string& role) {
    Module module{path, role, unit.layer, {}};
    const auto add = [&](const char* suffix, double value) {
      module.params.push_back(
          &params_.add(vector_param(path + suffix, spec_.dim, "model", constant(value), dtype_)));
    };
    if (spec_.norm != NormKind::layernorm_without_parameters) add(".weight", 1);
    if (spec_.norm == NormKind::layernorm) add(".bias", 0);
    return unit.modules.emplace_back(std::move(module));
  }

  Param& matrix(const std::string& name, std::vector<int64_t> shape, std::vector<std::string> axes) {
    Param param = described(std::move(shape), std::move(axes));
    param.name = name;
    return params_.add(std::move(param));
  }

  Param described(std::vector<int64_t> shape, std::vector<std::string> axes) const {
    return {
        .shape = std::move(shape), .axes = std::move(axes), .init = normal(spec_.init_std), .dtype = dtype_};
  }

  static std::string block_path(int64_t layer) { return "model.layers." + std::to_string(layer); }

  MlpShape mlp_shape(int64_t layer) const {
    return {.dim = spec_.dim,
            .ffn_dim = spec_.mlp_width(layer),
            .gate_and_up = normal(spec_.init_std),
            .down = normal(spec_.init_std),
            .activation = spec_.activation,
            .dtype = dtype_};
  }
  NormArgs norm_args() const { return {spec_.norm, spec_.norm_eps}; }

  const LlamaSpec& spec_;
  Params& params_;
  at::ScalarType dtype_;
};

/// FLOPs of a pair of positions in all layers, and the part of layers with a window.
struct PairFlops {
  double all = 0, windowed = 0;
};

PairFlops pair_flops(const LlamaSpec& spec) {
  PairFlops flops;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.has_linear_attention(layer)) continue;
    const int64_t values = spec.has_latents() ? spec.value_size() : spec.head_size(layer);
    const double of_layer = 6.0 * static_cast<double>(spec.n_heads * (spec.head_size(layer) + values));
    flops.all += of_layer;
    if (spec.window_of(layer) != 0) flops.windowed += of_layer;
  }
  return flops;
}
}  // namespace

Model declare_llama(const LlamaSpec& spec, Params& params, at::ScalarType dtype, int64_t seq_len) {
  LlamaDeclaration declare(spec, params, dtype);
  Model model;
  model.units.push_back(declare.embed());
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) model.units.push_back(declare.block(layer));
  model.units.push_back(declare.head());
  model.prepare = [](Batch&) {};
  if (spec.position == PositionKind::rope)
    model.prepare = rotary_tables(spec, seq_len, dtype == at::kDouble ? at::kDouble : at::kFloat);
  model.vocab_size = spec.vocab_size;
  model.checkpoint = spec.checkpoint;
  const PairFlops flops = pair_flops(spec);
  model.attention_flops_of_a_pair = flops.all;
  model.attention_pairs = {spec.window, flops.all == 0 ? 0 : flops.windowed / flops.all};
  const double of_state = spec.has_mamba() ? state_flops(spec.mamba) : state_flops(spec.delta_net);
  for (int64_t layer = 0; layer < spec.n_layers; ++layer)
    if (spec.has_linear_attention(layer)) model.state_flops_of_a_token += of_state;
  return model;
}

void edit_for_llama(const LlamaSpec& spec, int64_t seq_len, Recipe& recipe) {
  if (spec.position == PositionKind::alibi) recipe.ops.attention.demand(feature::alibi);
  if (spec.window != 0 && spec.window < seq_len) recipe.ops.attention.demand(feature::window);
  if (spec.attention_soft_cap != 0) recipe.ops.attention.demand(feature::soft_cap);
  if (spec.attention_sinks) recipe.ops.attention.demand(feature::lse);
  if (spec.value_size() != spec.head_size()) recipe.ops.attention.demand(feature::value_width);
  if (spec.has_mamba()) recipe.ops.delta_rule.demand(feature::uncorrected);
  if (spec.has_mamba() && spec.mamba.convolution_bias) recipe.ops.convolution.demand(feature::biases);
  if (spec.logits_soft_cap != 0) recipe.ops.head_loss.demand(feature::soft_cap);
  if (spec.activation != Activation::silu)
    recipe.ops.mlp.demand(spec.has_gate() ? feature::geglu : feature::ungated);
  if (spec.expert_bias) recipe.ops.mlp.demand(feature::biases);
  if (spec.n_experts > 0) count_rows_of_experts(recipe, spec.n_layers, spec.n_experts);
}
}  // namespace optrush
