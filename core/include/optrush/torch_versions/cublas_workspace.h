#pragma once
#include "optrush/torch_versions/at_least.h"

namespace optrush {
/// Whether LibTorch keeps a workspace for each handle and stream of cuBLAS. Otherwise for each product.
inline constexpr bool kKeepsCublasWorkspaces = !OPTRUSH_TORCH_AT_LEAST(2, 15);
}  // namespace optrush
