#include "results/planned_memory.h"

#include <vector>

#include "base/number_text.h"
#include "base/suggest.h"

namespace optrush {
namespace {
std::optional<double> bytes_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || !found->is_number() ? std::nullopt : std::optional(found->get<double>());
}

std::string string_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || !found->is_string() ? "" : found->get<std::string>();
}
}  // namespace

std::optional<PlannedMemory> planned_memory(const Json& plan) {
  if (!plan.is_object()) return std::nullopt;
  const auto found = plan.find("memory");
  if (found == plan.end() || !found->is_object()) return std::nullopt;
  const Json& json = *found;
  const auto peak = bytes_in(json, "peak_bytes");
  if (!peak) return std::nullopt;
  PlannedMemory memory{.peak = *peak,
                       .least = bytes_in(json, "least_bytes").value_or(*peak),
                       .bounded_by = string_in(json, "bounded_by"),
                       .reserved = bytes_in(json, "reserved_bytes"),
                       .pinned = bytes_in(json, "pinned_bytes"),
                       .available = bytes_in(json, "available_bytes"),
                       .device = string_in(json, "device")};
  if (const auto parts = json.find("parts"); parts != json.end() && parts->is_object()) {
    memory.block_rounding = bytes_in(*parts, "block_rounding");
    memory.cublas_workspaces = bytes_in(*parts, "cublas_workspaces");
  }
  return memory;
}

std::string planned_peak_text(const PlannedMemory& memory) {
  return memory.bounded_by.empty() ? bytes(memory.peak) : bytes(memory.least) + " to " + bytes(memory.peak);
}

std::string planned_memory_text(const PlannedMemory& memory) {
  std::string text = "predicted peak " + planned_peak_text(memory);
  if (memory.device == "cuda") {
    text += " active";
    std::vector<std::string> parts;
    if (memory.cublas_workspaces.value_or(0) > 0)
      parts.push_back("cuBLAS workspaces " + bytes(*memory.cublas_workspaces));
    if (memory.block_rounding.value_or(0) > 0)
      parts.push_back("rounding to blocks " + bytes(*memory.block_rounding));
    if (!parts.empty()) text += " (including " + join(parts) + ")";
    if (memory.reserved)
      text += ", " + std::string(memory.bounded_by.empty() ? "" : "at most ") + bytes(*memory.reserved) +
              " reserved";
    if (memory.reserved && memory.available && memory.peak <= *memory.available &&
        *memory.reserved > *memory.available)
      text +=
          ", more than the GPU has: with env = { PYTORCH_ALLOC_CONF = \"expandable_segments:True\" } the "
          "allocator can use its fragments";
    if (memory.pinned.value_or(0) > 0) text += ", and " + bytes(*memory.pinned) + " of pinned host memory";
  }
  return memory.bounded_by.empty() ? text : text + "; bounds: " + memory.bounded_by;
}
}  // namespace optrush
