#pragma once
#include <optional>
#include <string>

#include "spec/record.h"

namespace optrush {
/// The memory of a step as a plan predicts it. Bytes.
struct PlannedMemory {
  double peak = 0;         ///< in use, or what is in use at most
  double least = 0;        ///< at least; `peak` where nothing is a bound
  std::string bounded_by;  ///< why the two differ; "": they do not
  std::optional<double> tensors, block_rounding, cublas_workspaces;  ///< parts of `peak`
  std::optional<double> reserved;   ///< by the caching allocator; none on a CPU
  std::optional<double> pinned;     ///< of the host; none on a CPU
  std::optional<double> available;  ///< none: the device is not here
  std::string device;               ///< "cpu" or "cuda"
  std::optional<int64_t> rank;      ///< with the largest peak; none: all ranks keep the same layers
};
const Record<PlannedMemory>& record_of(const PlannedMemory*);

/// "64.7 GiB", or of a bound "21.0 to 64.7 GiB".
std::string planned_peak_text(const PlannedMemory&);
/// "predicted peak 64.7 GiB: tensors 64.0 GiB, cuBLAS workspaces 64.0 MiB, ...; 71.8 GiB reserved".
std::string planned_memory_text(const PlannedMemory&);
}  // namespace optrush
