#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

/// What the tracer of a compiler sees of a function: it sees ATen calls and nothing else.
enum class Trace : uint8_t {
  opaque,  ///< raw kernel, collective, host state: never traced through; its plain form is traced in its
           ///< place
  aten,    ///< ATen only, and its derivative may be derived again
  pair     ///< a Differentiable: both halves are kept
};

struct Traits {
  Trace trace = Trace::opaque;
  bool capturable = false;               ///< no host synchronization: may be part of a CUDA graph
  std::vector<std::string> offers = {};  ///< features beyond the signature: "lse", "segments", "double"
  /// Whether a step with it can be run on tensors without values (optrush/forecast.h). Where nobody says: a
  /// wrap can, and a base can that is not opaque.
  std::optional<bool> predictable = {};
};

/// One line of a plan: who edited a slot, and how.
struct Edit {
  Phase phase = Phase::base;
  std::string plugin;
  Traits traits;
  /// The order of wraps around a base, of events and of scopes: whatever the order of the edits.
  bool operator<(const Edit& other) const {
    return std::pair(phase, std::string_view(plugin)) <
           std::pair(other.phase, std::string_view(other.plugin));
  }
};

/// True while a compiler traces the calling thread.
bool tracing();
}  // namespace optrush
