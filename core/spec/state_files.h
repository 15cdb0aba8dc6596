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
/// What one rank saved of it.
std::filesystem::path state_part(const std::filesystem::path& folder, int64_t step, int64_t rank);

/// Beside the rank's part, after its sum.
void write_record(const std::filesystem::path& folder, int64_t step, int64_t rank, const Json& record);
/// Of the state that counts. None where there is none, or where it is not what was written.
std::optional<Json> saved_record(const std::filesystem::path& folder, int64_t rank);
/// The states stay, and no run takes them for its own any more.
void forget_records(const std::filesystem::path& folder);
}  // namespace optrush
