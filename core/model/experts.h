#pragma once
#include "model/declare.h"
#include "optrush/ops.h"

namespace optrush {
class Recipe;

struct MixtureShape {
  MlpShape expert;
  Initializer router;
  int64_t count = 0;           ///< E
  int64_t per_token = 0;       ///< experts per token
  bool normalize = true;       ///< whether the weights of a token's experts are scaled to sum to 1
  Router form = {};            ///< how scores choose and weigh the experts
  int64_t shared_ffn_dim = 0;  ///< width of the shared expert, which every token passes; 0: none
  bool shared_gate = true;     ///< whether a gate weighs the shared expert
  /// The router's input and the experts' rows have a trained weight (D), and each expert a trained factor.
  bool scaled = false;
};
/// Declares a mixture of experts (arXiv:1701.06538) as a unit of role "experts": the router "gate" and the
/// MLPs "experts.0", ... below `path`. No token is dropped (arXiv:2211.15841). With a shared expert, the
/// result is a unit of role "mixture" that has this unit, the MLP "shared_expert" and its gate, if any. If a
/// rank keeps only some experts, `Ops::experts` moves the rows.
std::unique_ptr<Unit> declare_mixture(Params&, const std::string& path, int64_t layer, const MixtureShape&);

/// Declares LlamaSpec::experts_beside_mlp: an MLP and routed experts below `block`, whose outputs are
/// normalized and added. The unit's input is normalized without a weight, because each of its parts has a
/// weight.
std::unique_ptr<Unit> declare_experts_beside_mlp(Params&, const std::string& block, int64_t layer,
                                                 const MixtureShape&, const MlpShape&, const NormArgs&);

/// Counts on the device how many rows each expert gets during training, and reports how far the routers are
/// from an equal distribution. The numbers do not depend on the ranks that share the work.
void count_rows_of_experts(Recipe&, int64_t layers, int64_t experts);
}  // namespace optrush
