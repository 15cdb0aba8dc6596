#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/cpu_info.h"
#include "measure/nvml.h"
#include "optrush/json.h"

namespace optrush {
/// Dense bf16 FLOP/s that the maker states for a GPU of exactly this name, as the driver reports it. Nothing
/// for every other name: a partition (MIG) or an unlisted variant is measured, never guessed.
std::optional<double> published_bf16_peak(std::string_view device_name);

struct MachineRequest {
  at::Device device = at::kCPU;  ///< whose peak is measured
  double probe_s = 12;           ///< for how long speeds are measured
};

/// The machine and its software, the measured matmul peak and memory bandwidth: the context of a report
/// (docs/schema/context.schema.json). CPU peaks are those of the number of threads that is set when it is
/// called.
Json machine_context(const MachineRequest&);

/// Reasons not to trust a measurement that is taken now. `busy`: processors that others keep busy.
std::vector<std::string> machine_warnings(const CpuInfo&, double busy, const std::vector<GpuInfo>&,
                                          const std::string& driver);
}  // namespace optrush
