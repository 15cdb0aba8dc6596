#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "optrush/json.h"

/// File names in the folder of a run's saved states, and the record beside each state: the measurements made
/// before it. An interrupted run continues from both.
namespace optrush {
/// The file that names the valid state.
std::filesystem::path state_head(const std::filesystem::path& folder);
/// The folder of the state after `step` steps.
std::filesystem::path state_of_step(const std::filesystem::path& folder, int64_t step);
/// The file with the part that one rank saved.
std::filesystem::path state_part(const std::filesystem::path& folder, int64_t step, int64_t rank);

/// Writes the record beside the rank's part, preceded by its SHA-256.
void write_record(const std::filesystem::path& folder, int64_t step, int64_t rank, const Json& record);
/// The record of the valid state; none if there is no state or the record was changed.
std::optional<Json> saved_record(const std::filesystem::path& folder, int64_t rank);
/// Deletes the records. The states stay, but no run continues from them.
void forget_records(const std::filesystem::path& folder);
}  // namespace optrush
