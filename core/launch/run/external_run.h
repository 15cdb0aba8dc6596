#pragma once
#include <filesystem>
#include <string>

#include "experiment/external.h"
#include "experiment/plan.h"
#include "process/process.h"

namespace optrush {
/// The command of an external rung's run, with placeholders filled in. The run's files are also in
/// environment variables (OPTRUSH_SPEC, OPTRUSH_OUT, OPTRUSH_METRICS, OPTRUSH_TRACE, OPTRUSH_WORKER,
/// OPTRUSH_WORLD_SIZE), and OpenMP's variables are those of workers. `start`: value of {start}; empty if the
/// command does not use it.
Command external_command(const External&, const RunSpec&, const std::filesystem::path& run_folder,
                         const std::filesystem::path& worker, const std::filesystem::path& start);

/// If a command printed its RunResult: writes the last JSON object of the log to result.json.
void keep_printed_result(const std::filesystem::path& run_folder);

/// An external program in the form of a plugin, for plans: the gate uses its effect, and the report lists its
/// files.
UsedPlugin as_plugin(const External&, const std::string& rung);
}  // namespace optrush
