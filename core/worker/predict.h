#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "optrush/json.h"
#include "optrush/spec.h"

namespace optrush {
/// Peak bytes of tensors in one training step, by running it on tensors without memory: the same operators
/// ask for the same sizes. None where a plugin does more than call ATen, or the step needs values.
std::optional<int64_t> predicted_peak(const RunSpec&);

/// "memory" of a plan: {"peak_bytes", "available_bytes", "device"}, null where nothing is predicted.
Json memory_forecast(const RunSpec&);
}  // namespace optrush
