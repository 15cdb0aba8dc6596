#pragma once
#include <filesystem>
#include <string>

#include "experiment/external.h"
#include "experiment/plan.h"
#include "launch/schedule/schedule.h"
#include "process/process.h"

namespace optrush {
/// The command of a run of an external rung: placeholders filled in, the run's files as environment variables
/// as well (OPTRUSH_SPEC, OPTRUSH_OUT, OPTRUSH_METRICS, OPTRUSH_WORKER, OPTRUSH_WORLD_SIZE), and what workers
/// get of OpenMP. `start` is what {start} stands for; empty where the command does not ask for it.
Command external_command(const External&, const RunSpec&, const std::filesystem::path& run_folder,
                         const std::filesystem::path& worker, const std::filesystem::path& start);

/// A command that has printed its RunResult instead of writing it: the last JSON object of the log becomes
/// result.json.
void keep_printed_result(const std::filesystem::path& run_folder);

/// As a plan lists what was stacked: its effect decides how the gate compares, its files are in the report.
UsedPlugin as_plugin(const External&, const std::string& rung);
}  // namespace optrush
