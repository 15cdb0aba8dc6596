#pragma once
#include "optrush/torch_versions/at_least.h"

namespace optrush {
/// Whether a GPU sets zeros by a memset. Otherwise a kernel writes them.
inline constexpr bool kZerosAreMemsets = OPTRUSH_TORCH_AT_LEAST(2, 15);
/// Whether the gradient of an embedding is sorted by the bits that a token can have. Otherwise by all 64
/// bits.
inline constexpr bool kSortsBitsOfTokens = OPTRUSH_TORCH_AT_LEAST(2, 15);
/// A launch of a multi-tensor kernel takes this many times the tensors and blocks that fit arguments of 4
/// KiB.
inline constexpr int kMultiTensorArguments = OPTRUSH_TORCH_AT_LEAST(2, 15) ? 7 : 1;
}  // namespace optrush
