// Llama (arXiv:2302.13971) with grouped-query attention (arXiv:2305.13245). Shapes: B batch, S sequence, D
// model width, H query heads, G key/value heads, K head width, F feed-forward width, V vocabulary.
#include "model/llama.h"

#include <ATen/Functions.h>

#include <cmath>

#include "model/binder.h"
#include "model/declare.h"
#include "model/rotary.h"
#include "params/init.h"

namespace optrush {
namespace {
struct Attention {
  Ops::Linear::Fn wq, wk, wv, wo;
  Ops::Position::Fn position;
  Ops::Attention::Fn attention;
  AttentionForwardBackward halves;
  int64_t head_dim;

  Tensor heads(const Tensor& x_BSD) const { return x_BSD.unflatten(-1, {-1, head_dim}).transpose(1, 2); }

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    const auto [q_BHSK, k_BGSK] = position(heads(wq(x_BSD)), heads(wk(x_BSD)), batch);
    const Tensor v_BGSK = heads(wv(x_BSD));
    const AttentionArgs args{
        .scale = 1 / std::sqrt(static_cast<double>(head_dim)), .segments = batch.segments, .halves = &halves};
    return wo(attention(q_BHSK, k_BGSK, v_BGSK, args).out.transpose(1, 2).flatten(2));
  }
};

struct Block {
  Ops::AddNorm::Fn attention_norm, mlp_norm;
  UnitFunction attention, mlp;
  NormArgs norm;

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    const auto [stream_BSD, first_BSD] = attention_norm(x_BSD, {}, norm);
    const auto [h_BSD, second_BSD] = mlp_norm(stream_BSD, attention(first_BSD, batch), norm);
    return h_BSD + mlp(second_BSD, batch);
  }
};

struct Head {
  Ops::Norm::Fn final_norm;
  Ops::HeadParts parts;
  Ops::HeadLoss::Fn loss;
  NormArgs norm;

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    const Tensor normed_BSD = final_norm(x_BSD, norm);
    return batch.labels.defined() ? loss(normed_BSD, batch.labels, parts) : parts.logits(normed_BSD);
  }
};

/// Declares parameters and modules; holds what all of them share.
class LlamaDeclaration {
 public:
  LlamaDeclaration(const LlamaSpec& spec, Params& params, at::ScalarType dtype)
      : spec_(spec), params_(params), dtype_(dtype) {}

  std::unique_ptr<Unit> embed() {
    auto unit = make_unit("model.embed_tokens", "embed", -1);
    auto& weight = matrix("model.embed_tokens.weight", {spec_.vocab_size, spec_.dim}, {"vocab", "model"});
    const Module& module =
        unit->modules.emplace_back(Module{"model.embed_tokens", "embedding", -1, {&weight}});
    unit->build = [&module](const Binder& bind) -> UnitFunction {
      return [embedding = bind.embedding(module)](const Tensor&, const Batch& batch) {
        return embedding(batch.tokens);
      };
    };
    return unit;
  }

  std::unique_ptr<Unit> block(int64_t layer) {
    const std::string path = "model.layers." + std::to_string(layer);
    auto unit = make_unit(path, "block", layer);
    const Module& first = norm(*unit, path + ".input_layernorm", "add_norm");
    const Module& second = norm(*unit, path + ".post_attention_layernorm", "add_norm");
    const Unit& attention = *unit->children.emplace_back(this->attention(path + ".self_attn", layer));
    const Unit& mlp = *unit->children.emplace_back(declare_mlp(params_, path + ".mlp", layer, mlp_shape()));
    unit->build = [&, args = norm_args()](const Binder& bind) -> UnitFunction {
      return Block{bind.add_norm(first), bind.add_norm(second), bind.unit(attention), bind.unit(mlp), args};
    };
    return unit;
  }

  std::unique_ptr<Unit> head() {
    auto unit = make_unit("lm_head", "head", -1);
    const Module& final_norm = norm(*unit, "model.norm", "norm");
    auto& weight = spec_.tie_embeddings
                       ? params_.at("model.embed_tokens.weight")
                       : matrix("lm_head.weight", {spec_.vocab_size, spec_.dim}, {"vocab", "model"});
    const Module& logits = unit->modules.emplace_back(Module{"lm_head", "linear", -1, {&weight}});
    const Module& loss = unit->modules.emplace_back(Module{"loss", "head_loss", -1, {&weight}});
    unit->build = [&, args = norm_args()](const Binder& bind) -> UnitFunction {
      return Head{bind.norm(final_norm), {bind.linear(logits)}, bind.head_loss(loss), args};
    };
    return unit;
  }

 private:
  std::unique_ptr<Unit> attention(const std::string& path, int64_t layer) {
    auto unit = make_unit(path, "attention", layer);
    const int64_t queries = spec_.n_heads * spec_.head_size(), keys = spec_.n_kv_heads * spec_.head_size();
    const Module& q = linear(*unit, path + ".q_proj", queries, spec_.dim, {"heads", "model"});
    const Module& k = linear(*unit, path + ".k_proj", keys, spec_.dim, {"kv_heads", "model"});
    const Module& v = linear(*unit, path + ".v_proj", keys, spec_.dim, {"kv_heads", "model"});
    const Module& o = linear(*unit, path + ".o_proj", spec_.dim, queries, {"model", "heads"});
    const Module& position = unit->modules.emplace_back(Module{path + ".rotary", "position", layer, {}});
    const Module& attend = unit->modules.emplace_back(Module{path, "attention", layer, {}});
    unit->build = [&, head_dim = spec_.head_size()](const Binder& bind) -> UnitFunction {
      return Attention{bind.linear(q),
                       bind.linear(k),
                       bind.linear(v),
                       bind.linear(o),
                       bind.position(position),
                       bind.attention(attend),
                       bind.attention_forward_backward(attend),
                       head_dim};
    };
    return unit;
  }

  const Module& linear(Unit& unit, const std::string& path, int64_t out, int64_t in,
                       std::vector<std::string> axes) {
    return add_linear(unit, params_, path, described({out, in}, std::move(axes)));
  }

  const Module& norm(Unit& unit, const std::string& path, const std::string& role) {
    Module module{path, role, unit.layer, {}};
    const auto vector = [&](const char* suffix, double value) {
      module.params.push_back(&params_.add({.name = path + suffix,
                                            .shape = {spec_.dim},
                                            .axes = {"model"},
                                            .init = constant(value),
                                            .dtype = dtype_,
                                            .decay = false}));
    };
    if (spec_.norm != NormKind::layernorm_without_parameters) vector(".weight", 1);
    if (spec_.norm == NormKind::layernorm) vector(".bias", 0);
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

  MlpShape mlp_shape() const {
    return {spec_.dim, spec_.ffn_dim, normal(spec_.init_std), normal(spec_.init_std), dtype_};
  }
  NormArgs norm_args() const { return {spec_.norm, spec_.norm_eps}; }

  const LlamaSpec& spec_;
  Params& params_;
  at::ScalarType dtype_;
};
}  // namespace

Model declare_llama(const LlamaSpec& spec, Params& params, at::ScalarType dtype) {
  LlamaDeclaration declare(spec, params, dtype);
  Model model;
  model.units.push_back(declare.embed());
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) model.units.push_back(declare.block(layer));
  model.units.push_back(declare.head());
  // Moved to the device once: a copy for each micro-batch would make the host wait.
  model.prepare = [frequencies = inverse_frequencies(spec),
                   type = dtype == at::kDouble ? at::kDouble : at::kFloat](Batch& batch) mutable {
    frequencies = frequencies.to(batch.positions.device());
    fill_rotary(batch, frequencies, type);
  };
  model.vocab_size = spec.vocab_size;
  model.checkpoint = spec.checkpoint;
  model.attention_flops_per_token_and_position =
      12.0 * static_cast<double>(spec.n_layers * spec.n_heads * spec.head_size());
  return model;
}
}  // namespace optrush
