#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "optrush/json.h"

namespace optrush {
/// A GPU for which a script is planned. This machine need not have it.
struct PlannedGpu {
  std::string name;          ///< "H100 80GB"
  int64_t memory_bytes = 0;  ///< as such a card reports to CUDA
  std::string sm;            ///< "sm_90"
};

Json to_json(const PlannedGpu&);

/// The card with this name or other name, in any case: "h100", "a100-40"; none if no such card is listed.
std::optional<PlannedGpu> listed_gpu(const std::string& name);
/// Parses --as-gpu. A name of a listed card. A number without a point: the advertised size in GB, which means
/// the newest listed card of this size, or that many GiB with sm_90 if none is listed. A number with a point:
/// the reported size in GiB. A number with unit GB or GiB: exactly that many bytes. Throws a UsageError with
/// the allowed names or the nearest one.
PlannedGpu planned_gpu(const std::string& given);
/// Names of the listed cards, sorted by architecture, and their other names.
std::vector<std::string> gpu_card_names();
}  // namespace optrush
