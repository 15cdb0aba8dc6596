#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "optrush/param.h"
#include "optrush/spec.h"
#include "optrush/unit.h"

namespace optrush {
class Recipe;

/// Counts pairs of positions that attention relates within a document.
struct AttentionPairs {
  int64_t window = 0;   ///< window of the windowed layers; 0: none
  double windowed = 0;  ///< share of layers with the window

  /// Number of ordered pairs, mean over the layers: length^2 without a window.
  double of(int64_t length) const;
};

/// A declared model: its units in order of the forward, and its requirements of a batch. Parameters have no
/// values yet.
struct Model {
  std::vector<std::unique_ptr<Unit>> units;
  std::function<void(Batch&)> prepare;  ///< sets side inputs, such as rotary tables, once per micro-batch
  int64_t vocab_size = 0;               ///< 0: the model does not take tokens
  int64_t input_dim = 0;                ///< width of the input activations of a model without tokens
  std::string checkpoint;               ///< folder of the initial values; empty: from (seed, name)
  /// FLOPs of attention per pair of positions, forward and backward: 6 L heads (width of a key + width of a
  /// value); 0: no attention.
  double attention_flops_of_a_pair = 0;
  AttentionPairs attention_pairs;
  /// FLOPs of linear attention for a token, forward and backward, without its matrix products with
  /// parameters.
  double state_flops_of_a_token = 0;
};

/// Declares the model of `spec.model_kind` into `params`.
Model declare_model(const RunSpec&, Params&, at::ScalarType dtype);
/// Adds the edits of this kind of model, for example the calls of a collective.
void edit_for_model(const RunSpec&, Recipe&);
}  // namespace optrush
