#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/plan.h"
#include "launch/schedule/schedule.h"
#include "results/journal.h"
#include "results/run_result.h"

namespace optrush {
bool saves_state(const Job&);
/// Whether the run ended by a fault that may not occur again: a process was lost or crashed, or a rank hung.
/// A failure that the run itself reports and the time limit are not faults.
bool is_fault(const RunResult&);
/// The reason why a run can't continue from a state of another spec; "" if the spec only distributes the same
/// training over another number of ranks, and steps are left. `record`: stored with the state; `run_folder`:
/// has the earlier spec.
std::string change_of_spec(const Json& record, const Job&, const std::optional<Plan>&,
                           const std::filesystem::path& run_folder);
/// A note for the report: the number of restarts, the repeated steps, and the reasons.
std::string note_of(const std::vector<JournalEntry>& restarts);
/// Throws a UsageError if an experiment requests restarts and no run of it can continue from a state.
void check_restarts(const Expanded&);
}  // namespace optrush
