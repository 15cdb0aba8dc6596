#include "experiment/planned_memory.h"

#include <vector>

#include "base/number_text.h"
#include "base/suggest.h"

namespace optrush {
const Record<PlannedMemory>& record_of(const PlannedMemory*) {
  using M = PlannedMemory;
  static const auto parts =
      Record<M>("the parts of a peak")
          .open()
          .field("tensors", &M::tensors, {.nullable = true, .integer = true})
          .field("block_rounding", &M::block_rounding, {.nullable = true, .integer = true})
          .field("cublas_workspaces", &M::cublas_workspaces, {.nullable = true, .integer = true});
  static const auto record =
      Record<M>("a forecast of memory")
          .open()
          .field("peak_bytes", &M::peak, {.required = true, .integer = true})
          .field("least_bytes", &M::least, {.integer = true})
          .custom(
              {"bounded_by",
               {.nullable = true, .schema = {{"type", "string"}}},
               [](M& memory, const Json& json) {
                 memory.bounded_by = record::taken<std::string>(json, "bounded_by");
               },
               [](const M& memory) { return memory.bounded_by.empty() ? Json() : Json(memory.bounded_by); }})
          .part("parts", parts, {})
          .field("reserved_bytes", &M::reserved, {.nullable = true, .integer = true})
          .field("pinned_bytes", &M::pinned, {.nullable = true, .integer = true})
          .field("available_bytes", &M::available, {.nullable = true, .integer = true})
          .field("device", &M::device, {})
          .field("rank", &M::rank, {.nullable = true, .integer = true})
          .then([](M& memory) {
            if (memory.least == 0) memory.least = memory.peak;
          });
  return record;
}

std::string planned_peak_text(const PlannedMemory& memory) {
  return memory.bounded_by.empty() ? bytes(memory.peak) : bytes(memory.least) + " to " + bytes(memory.peak);
}

std::string planned_memory_text(const PlannedMemory& memory) {
  std::string text = (memory.rank ? "largest predicted peak, on rank " + std::to_string(*memory.rank) + ": "
                                  : "predicted peak ") +
                     planned_peak_text(memory);
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
