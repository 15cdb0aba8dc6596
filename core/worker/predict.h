#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "optrush/json.h"
#include "optrush/spec.h"
#include "optrush/tensor.h"

namespace optrush {
/// What one training step tells that runs on tensors without values (simulated/device.h): the same operators
/// ask for the same sizes.
struct Forecast {
  int64_t peak_bytes = 0;  ///< of tensors
  Json costs;              ///< StepCosts::to_json
};

/// `form`: the kind of device whose form operators take, kCPU or kCUDA; it need not be here. None where a
/// plugin does more than call ATen and does not take part, or the step needs values; `why_not` then says so.
std::optional<Forecast> forecast(const RunSpec&, at::DeviceType form, std::string* why_not = nullptr);

/// Adds to a plan "memory": {"peak_bytes", "available_bytes" (null where the device is not here), "device"},
/// and "costs"; both null where nothing is predicted, with the reason in "no_forecast".
void add_forecast(Json& plan, const RunSpec&);
}  // namespace optrush
