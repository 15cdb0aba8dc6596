#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

/// Lifecycle of a run in a worker, in this order. apply() comes before all of it and touches no device.
enum class Event : uint8_t {
  meshed,    ///< process groups exist
  declared,  ///< parameters are known by name and shape, without values: add, freeze, tie, split, encode here
  placed,    ///< values exist
  ready,     ///< every slot is resolved for every site; data parallelism and optimizer are built
  step_begin,
  step_end,
  finished
};
std::string_view to_string(Event);

/// How a plugin changes arithmetic, and so how the correctness gate compares its rung (docs/architecture.md).
enum class Effect : uint8_t {
  exact,      ///< the same bits
  rounding,   ///< the same formula in another order
  precision,  ///< fewer bits
  batch,      ///< another number of sequences a step
  model       ///< another function or other trainable parameters
};
std::string_view to_string(Effect);
std::vector<std::string> effect_names();
/// An Error names the effects.
Effect effect_from_string(std::string_view, const std::string& where);
}  // namespace optrush
