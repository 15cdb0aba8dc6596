#pragma once
#include <optional>
#include <string_view>

namespace optrush {
/// Dense bf16 FLOP/s that the maker states for a GPU of exactly this name, as the driver reports it. Nothing
/// for every other name: a partition (MIG) or an unlisted variant is measured, never guessed.
std::optional<double> published_bf16_peak(std::string_view device_name);
}  // namespace optrush
