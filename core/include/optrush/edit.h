#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optrush {
/// Nesting order of the wraps around a base, innermost first, the same in every slot. It is a property of an
/// edit, not of a plugin: tensor parallelism edits linear, embedding and head_loss in different phases.
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

/// How a compiler traces a function. A tracer sees only calls of ATen.
enum class Trace : uint8_t {
  opaque,  ///< raw kernel, collective, host state: not traceable; the plain operator is traced instead
  aten,    ///< only ATen calls; autograd may derive the backward
  pair     ///< a Differentiable: its forward and backward are kept
};

struct Traits {
  Trace trace = Trace::opaque;
  bool capturable = false;               ///< no host synchronization; can be part of a CUDA graph
  std::vector<std::string> offers = {};  ///< features beyond the signature: "lse", "segments", "double"
  /// Whether a step with the edit can run on tensors without values (optrush/forecast.h). Default: true for
  /// wraps and for bases that are not opaque.
  std::optional<bool> predictable = {};
};

/// One edit of a slot, as listed in a plan.
struct Edit {
  Phase phase = Phase::base;
  std::string plugin;
  Traits traits;
  /// The order of wraps around a base, of events and of scopes. It does not depend on the order of the edits.
  bool operator<(const Edit& other) const {
    return std::pair(phase, std::string_view(plugin)) <
           std::pair(other.phase, std::string_view(other.plugin));
  }
};

/// True while a compiler traces the calling thread.
bool tracing();
}  // namespace optrush
