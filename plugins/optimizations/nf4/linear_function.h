#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "codec.h"
#include "optrush/differentiable.h"

namespace optrush::nf4 {
/// x Wᵀ with a frozen W that is decoded in the forward, and once more in the backward, each time into the
/// type of x: autograd keeps W in 4 bits. Inputs x (.., K) and what the codec stores of W (N, K); output
/// (.., N).
Differentiable make_linear_function(const std::shared_ptr<const Nf4Codec>&,
                                    const std::vector<int64_t>& shape);
}  // namespace optrush::nf4
