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
}  // namespace optrush::flash
