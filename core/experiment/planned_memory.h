#pragma once
#include <optional>
#include <string>

#include "spec/record.h"

namespace optrush {
/// The forecast of a step's memory, in bytes.
struct PlannedMemory {
  double peak = 0;         ///< peak of memory in use, or an upper bound of it
  double least = 0;        ///< a lower bound; equal to `peak` if the forecast is exact
  std::string bounded_by;  ///< why there are only bounds; "": the forecast is exact
  std::optional<double> tensors, block_rounding, cublas_workspaces;  ///< parts of `peak`
  std::optional<double> reserved;   ///< reserved by the caching allocator; none on a CPU
  std::optional<double> pinned;     ///< pinned host memory; none on a CPU
  std::optional<double> available;  ///< memory of the device; none: this machine does not have the device
  std::string device;               ///< "cpu" or "cuda"
  std::optional<int64_t> rank;      ///< the rank with the largest peak; none: all ranks keep the same layers
};
const Record<PlannedMemory>& record_of(const PlannedMemory*);

/// "64.7 GiB", or for bounds "21.0 to 64.7 GiB".
std::string planned_peak_text(const PlannedMemory&);
/// "predicted peak 64.7 GiB: tensors 64.0 GiB, cuBLAS workspaces 64.0 MiB, ...; 71.8 GiB reserved".
std::string planned_memory_text(const PlannedMemory&);
}  // namespace optrush
