#pragma once
#include <cstdint>

#include "model/model.h"
#include "optrush/param.h"

namespace optrush {
/// FLOPs per token by formula (docs/architecture.md, "MFU"). P: matmul parameters, without the input
/// embedding unless it is tied to the output; 6 P for trained ones, 4 P for frozen ones (no weight gradient).
struct ModelFlops {
  double mfu = 0;         ///< 6 P + 12 L S heads head_dim
  double mfu_causal = 0;  ///< 6 P + 6 L S heads head_dim
};
ModelFlops model_flops(const Model&, int64_t seq_len);
}  // namespace optrush
