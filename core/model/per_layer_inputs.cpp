// Inputs of layers, as in Gemma 4 E2B. Of each token, layer l gets the vector
//   (scale table[token]_l + norm(projection(embedding) / sqrt(D))_l) / sqrt(2)
// and its block adds norm(projection(activation(gate(h)) * vector)) to the hidden state h. Shapes: B batch,
// S sequence, D model width, L layers, P width of such a vector.
#include "model/per_layer_inputs.h"

#include <ATen/Functions.h>

#include <cmath>
#include <numbers>
#include <string>

#include "model/binder.h"
#include "model/declare.h"

namespace optrush {
namespace {
constexpr const char *kAxis = "per_layer", *kAllLayers = "all_layers";

Param matrix_of(const LlamaSpec& spec, std::vector<int64_t> shape, std::vector<std::string> axes,
                at::ScalarType dtype) {
  return {.shape = std::move(shape), .axes = std::move(axes), .init = normal(spec.init_std), .dtype = dtype};
}

const Module& add_norm_of(Unit& unit, Params& params, const std::string& path, int64_t width,
                          const char* axis, at::ScalarType dtype) {
  Param& weight = params.add(vector_param(path + ".weight", width, axis, constant(1), dtype));
  return unit.modules.emplace_back(Module{path, "norm", unit.layer, {&weight}});
}
}  // namespace

std::function<PerLayerInputs(const Binder&)> declare_per_layer_inputs(const LlamaSpec& spec, Params& params,
                                                                      Unit& embed, at::ScalarType dtype) {
  const int64_t width = spec.per_layer_input_dim, all = spec.n_layers * width;
  if (width == 0) return nullptr;
  const std::string path = "model.embed_tokens_per_layer";
  Param rows = matrix_of(spec, {spec.per_layer_vocab(), all}, {"vocab", kAllLayers}, dtype);
  rows.name = path + ".weight";
  const Module& table =
      embed.modules.emplace_back(Module{path, "embedding", -1, {&params.add(std::move(rows))}});
  const Module& projection = add_linear(embed, params, "model.per_layer_model_projection",
                                        matrix_of(spec, {all, spec.dim}, {kAllLayers, "model"}, dtype));
  const Module& norm = add_norm_of(embed, params, "model.per_layer_projection_norm", width, kAxis, dtype);
  // Rounded like in transformers.
  const auto scale = at::scalar_tensor(std::sqrt(static_cast<double>(width)), dtype).item<double>();
  return [&, scale, width, down = 1 / std::sqrt(static_cast<double>(spec.dim)),
          args = NormArgs{NormKind::rmsnorm, spec.norm_eps}](const Binder& bind) -> PerLayerInputs {
    return [=, table = bind.embedding(table), projection = bind.linear(projection), norm = bind.norm(norm)](
               const Tensor& embedded_BSD, const Batch& batch) {
      const Tensor made_BSLP = (projection(embedded_BSD) * down).unflatten(-1, {-1, width});
      const Tensor looked_up = table(batch.tokens) * scale;
      return (norm(made_BSLP, args).flatten(2) + looked_up) * (1 / std::numbers::sqrt2);
    };
  };
}

std::function<PerLayerStep(const Binder&)> declare_per_layer_step(const LlamaSpec& spec, Params& params,
                                                                  Unit& block, at::ScalarType dtype) {
  const int64_t width = spec.per_layer_input_dim;
  if (width == 0) return nullptr;
  const Module& gate = add_linear(block, params, block.path + ".per_layer_input_gate",
                                  matrix_of(spec, {width, spec.dim}, {kAxis, "model"}, dtype));
  const bool silu = spec.activation == Activation::silu;
  const Module& glu =
      block.modules.emplace_back(Module{block.path + ".act_fn", silu ? "swiglu" : "geglu", block.layer, {}});
  const Module& projection = add_linear(block, params, block.path + ".per_layer_projection",
                                        matrix_of(spec, {spec.dim, width}, {"model", kAxis}, dtype));
  const Module& norm =
      add_norm_of(block, params, block.path + ".post_per_layer_input_norm", spec.dim, "model", dtype);
  return [&, silu, activation = spec.activation,
          args = NormArgs{NormKind::rmsnorm, spec.norm_eps}](const Binder& bind) -> PerLayerStep {
    return [=, gate = bind.linear(gate), projection = bind.linear(projection), norm = bind.norm(norm),
            gated = silu ? bind.swiglu(glu) : bind.geglu(glu, activation)](const Tensor& hidden_BSD,
                                                                           const Tensor& input_BSP) {
      const Tensor gate_BSP = gate(hidden_BSD);
      return norm(projection(gated(gate_BSP, input_BSP.to(gate_BSP.scalar_type()))), args);
    };
  };
}
}  // namespace optrush
