#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace optrush {
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
  std::optional<bool> foreseeable = {};
};

/// True while a compiler traces the calling thread.
bool tracing();
}  // namespace optrush
