#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "optrush/json.h"

/// Names in the folder where a run saves its state, and the record that lies beside each state: what the run
/// had measured by then. An interrupted run goes on from both.
namespace optrush {
/// The file that says which state counts.
std::filesystem::path state_head(const std::filesystem::path& folder);
/// The folder of the state after `step` steps.
std::filesystem::path state_of_step(const std::filesystem::path& folder, int64_t step);
/// The part that one rank saved.
std::filesystem::path state_part(const std::filesystem::path& folder, int64_t step, int64_t rank);

/// Beside the rank's part, after its sum.
void write_record(const std::filesystem::path& folder, int64_t step, int64_t rank, const Json& record);
/// The record of the valid state. None if there is no state or if it was changed.
std::optional<Json> saved_record(const std::filesystem::path& folder, int64_t rank);
/// The states stay, and no run takes them for its own any more.
void forget_records(const std::filesystem::path& folder);
}  // namespace optrush
