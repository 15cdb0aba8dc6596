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

/// Pairs of positions of one document that attention relates.
struct AttentionPairs {
  int64_t window = 0;   ///< 0: none
  double windowed = 0;  ///< share of the layers that have it

  /// In any order, as the mean over the layers: length² where there is no window.
  double of(int64_t length) const;
};

/// A declared model: its units in order of the forward, and what they need of a batch. Parameters have no
/// values yet.
struct Model {
  std::vector<std::unique_ptr<Unit>> units;
  std::function<void(Batch&)> prepare;  ///< side inputs from the positions, once a micro-batch
  int64_t vocab_size = 0;               ///< 0: it takes no tokens
  int64_t input_dim = 0;                ///< of the activations that it takes in place of tokens
  std::string checkpoint;               ///< folder that values come from; empty: from (seed, name)
  /// FLOPs of attention per pair of positions, forward and backward: 12 L (heads x head_dim); 0: no
  /// attention.
  double attention_flops_of_a_pair = 0;
  AttentionPairs attention_pairs;
};

/// Declares the model of `spec.model_kind` into `params`.
Model declare_model(const RunSpec&, Params&, at::ScalarType dtype);
/// Work of this kind of model in addition to its forward: a collective alone is called in each.
void edit_for_model(const RunSpec&, Recipe&);
}  // namespace optrush
