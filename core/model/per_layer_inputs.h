#pragma once
#include <functional>

#include "optrush/param.h"
#include "optrush/spec.h"
#include "optrush/unit.h"

namespace optrush {
/// Makes the inputs of all layers (B, S, L P) from the embedding (B, S, D) and the tokens.
using PerLayerInputs = std::function<Tensor(const Tensor& embedded_BSD, const Batch&)>;
/// What a block adds to its hidden state (B, S, D), of this state and of the layer's input (B, S, P).
using PerLayerStep = std::function<Tensor(const Tensor& hidden_BSD, const Tensor& input_BSP)>;

// LlamaSpec::per_layer_input_dim, as in Gemma 4 E2B. Both are null for a model without.

/// Adds the table of tokens, the projection of the embedding and its norm to the unit of the embedding.
std::function<PerLayerInputs(const Binder&)> declare_per_layer_inputs(const LlamaSpec&, Params&, Unit& embed,
                                                                      at::ScalarType dtype);
/// Adds the gate, the projection and its norm to the unit of a block.
std::function<PerLayerStep(const Binder&)> declare_per_layer_step(const LlamaSpec&, Params&, Unit& block,
                                                                  at::ScalarType dtype);
}  // namespace optrush
