#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "optrush/ops.h"

namespace optrush::flash {
/// The numbers of keys to the left and to the right that a query sees in FlashAttention's kernel; -1: all.
/// None: there is no window. If the attention is not causal, a window has no end to the right.
inline std::array<std::optional<int64_t>, 2> window_of(const AttentionArgs& args) {
  if (args.window == 0) return {};
  return {args.window - 1, args.causal ? 0 : -1};
}

/// FLOPs of attention over rows, as LibTorch's operators count them. `products`: of scores x head dimension.
inline double flops_of_rows(int64_t products, const Tensor& q, const Tensor& k, const AttentionArgs& args) {
  const auto positions = static_cast<double>(k.size(2));
  double seen = positions;  // keys of a query, without causality
  if (args.has_window(k.size(2))) {
    const auto window = static_cast<double>(args.window), hidden = positions - window;
    seen = args.causal ? 2 * window - 1 - window * (window - 1) / positions
                       : positions - hidden * (hidden + 1) / (2 * positions);
  }
  return 2 * static_cast<double>(products) * static_cast<double>(q.numel()) * seen / (args.causal ? 2 : 1);
}
}  // namespace optrush::flash
