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

/// The widths of the products of scores, K and V, summed: q kᵀ and the product with v; in a backward the
/// scores again, and the gradients of the scores, of q, of k and of v.
inline double widths_of_products(bool backward, const Tensor& q, const Tensor& v) {
  const auto width = static_cast<double>(q.size(3)), of_values = static_cast<double>(v.size(3));
  return backward ? 3 * width + 2 * of_values : width + of_values;
}

/// FLOPs of attention over rows, as LibTorch's operators count them.
inline double flops_of_rows(bool backward, const Tensor& q, const Tensor& k, const Tensor& v,
                            const AttentionArgs& args) {
  const auto positions = static_cast<double>(k.size(2));
  double seen = positions;  // keys of a query, without causality
  if (args.has_window(k.size(2))) {
    const auto window = static_cast<double>(args.window), hidden = positions - window;
    seen = args.causal ? 2 * window - 1 - window * (window - 1) / positions
                       : positions - hidden * (hidden + 1) / (2 * positions);
  }
  const auto queries = static_cast<double>(q.size(0) * q.size(1) * q.size(2));
  return 2 * queries * seen * widths_of_products(backward, q, v) / (args.causal ? 2 : 1);
}
}  // namespace optrush::flash
