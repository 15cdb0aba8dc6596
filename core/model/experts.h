#pragma once
#include "model/declare.h"

namespace optrush {
struct ExpertsShape {
  MlpShape expert;
  Initializer router;
  int64_t count = 0;      ///< E
  int64_t per_token = 0;  ///< experts that a token passes
  bool normalize = true;  ///< the weights of a token's experts add up to 1
};
/// A mixture of experts (arXiv:1701.06538) as a unit of role "experts": the router "gate" and the MLPs
/// "experts.0", .. below `path`. No token is dropped (arXiv:2211.15841).
std::unique_ptr<Unit> declare_experts(Params&, const std::string& path, int64_t layer, const ExpertsShape&);
}  // namespace optrush
