#pragma once
#include <array>
#include <cstdint>

#include "optrush/spec.h"
#include "optrush/tensor.h"

namespace optrush {
/// The parts of the residual stream between two blocks. A block gets one tensor, through which all gradients
/// between blocks flow, so what later layers read stands behind the hidden state in its last dimension.
/// Undefined: the stream has no such part.
struct Carried {
  Tensor hidden_BSD;
  Tensor input_BSP;   ///< LlamaSpec::per_layer_input_dim: of this layer
  Tensor inputs_BSC;  ///< of all layers behind it, in their order
  /// Keys and values (B, S, 2 G K) that later layers use (LlamaSpec::kv_shared_layers): of layers with a
  /// window, and of layers with full attention. Keys are rotated.
  std::array<Tensor, 2> keys_values;
};

/// The stream that one layer gets and the one that it returns. In a model that carries nothing, both are the
/// hidden state.
class CarriedStream {
 public:
  CarriedStream(const LlamaSpec&, int64_t layer);

  /// What this layer reads is contiguous, so that tensors which it saves for the backward do not keep the
  /// whole stream in memory. The rest are views.
  Carried split(const Tensor& stream) const;
  /// The next layer's stream. Parts that no later layer reads are left out.
  Tensor joined(const Carried&) const;
  /// The keys and values of this layer's kind.
  Tensor& keys_values(Carried& parts) const { return parts.keys_values.at(kind_); }

 private:
  using Widths = std::array<int64_t, 5>;  ///< of the parts, in the order of Carried
  static Widths widths_at(const LlamaSpec&, int64_t layer);

  Widths in_, out_;
  size_t kind_;
};
}  // namespace optrush
