#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace optrush {
/// A GPU that a script is planned for, which need not be here.
struct PlannedGpu {
  std::string name;          ///< "H100 80GB"
  int64_t memory_bytes = 0;  ///< that such a card reports to CUDA
  std::string sm;            ///< "sm_90"
};

/// By what --as-gpu gives. A name: "h100", "a100-40". A number without a point is the size that a card is
/// sold with, in GB: the memory of the newest listed card of this size, or as many GiB and sm_90 where none
/// is listed. A number with a point is what the card reports, in GiB; with the unit GB or GiB it is that many
/// bytes. An UsageError names the allowed ones, or the nearest.
PlannedGpu planned_gpu(const std::string& given);
/// Names of listed cards, sorted by architecture.
std::vector<std::string> gpu_card_names();
}  // namespace optrush
