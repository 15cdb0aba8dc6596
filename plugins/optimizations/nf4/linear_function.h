#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "codec.h"
#include "optrush/differentiable.h"

namespace optrush::nf4 {
/// x Wᵀ with a frozen W. The forward and the backward each decode W into the type of x, so autograd
/// keeps W in 4 bits. Inputs x (.., K) and the stored tensors of the codec for W (N, K); output (..,
/// N).
Differentiable make_linear_function(const std::shared_ptr<const Nf4Codec>&,
                                    const std::vector<int64_t>& shape);
}  // namespace optrush::nf4
