#pragma once
#include <cstdint>
#include <string_view>

namespace optrush {
/// Nesting of the wraps around one base, innermost first, the same in every slot. It belongs to an edit, not
/// to a plugin: tensor parallelism edits linear, embedding and head_loss at several depths.
enum class Phase : uint8_t {
  base,
  quantize,
  adapter,
  tensor,
  context,
  compile,
  checkpoint,
  offload,
  shard,
  pipeline,
  precision,
  gradients,
  optimizer,
  capture,
  prefetch,
  measure
};
std::string_view to_string(Phase);
}  // namespace optrush
