#pragma once
#include "model/declare.h"

namespace optrush {
struct MixtureShape {
  MlpShape expert;
  Initializer router;
  int64_t count = 0;           ///< E
  int64_t per_token = 0;       ///< experts that a token passes
  bool normalize = true;       ///< the weights of a token's experts add up to 1
  int64_t shared_ffn_dim = 0;  ///< of the expert that each token passes; 0: none
};
/// A mixture of experts (arXiv:1701.06538) as a unit of role "experts": the router "gate" and the MLPs
/// "experts.0", .. below `path`. No token is dropped (arXiv:2211.15841). With a shared expert it is a unit of
/// role "mixture" with that unit, the MLP "shared_expert" and its gate. A rank may take experts away before
/// the unit is built: `Ops::experts` then brings the rows of the others.
std::unique_ptr<Unit> declare_mixture(Params&, const std::string& path, int64_t layer, const MixtureShape&);
}  // namespace optrush
