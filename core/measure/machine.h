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
/// Dense bf16 FLOP/s that the maker states for a GPU with exactly this name, as the driver reports it. None
/// for every other name: a partition (MIG) or an unlisted variant is measured, not guessed.
std::optional<double> published_bf16_peak(std::string_view device_name);

struct MachineRequest {
  at::Device device = at::kCPU;  ///< device to measure
  double probe_s = 12;           ///< seconds for bursts of products and for the bandwidth
  /// Seconds of each sustained product; 0: a quarter of probe_s on a GPU, a 24th on a CPU
  double sustained_s = 0;
};

/// The context of a report (docs/schema/context.schema.json): the machine, its software, and the measured
/// peak of matrix products and memory bandwidth. CPU peaks hold for the present number of threads.
Json machine_context(const MachineRequest&);

/// Reasons to doubt a measurement taken now.
std::vector<std::string> machine_warnings(const CpuInfo&, const std::vector<GpuInfo>&,
                                          const std::string& driver);
}  // namespace optrush
