#pragma once
#include <filesystem>
#include <vector>

#include "experiment/external.h"
#include "experiment/plan.h"
#include "process/process.h"
#include "results/run_result.h"

namespace optrush {
inline constexpr const char* kProgramReports =
    "append one line per step to the file $OPTRUSH_METRICS: "
    R"({"event": "step", "step": 0, "timed": true, "tokens": 4096, "seconds": 0.2}; )"
    "loss, grad_norm and phases are optional (docs/guides/your_script.md)";

/// The command of a program's run, with placeholders filled in. Its files are also in environment variables
/// (OPTRUSH_SPEC, OPTRUSH_OUT ...), and OpenMP's variables are those of workers. `start`: value of {start};
/// empty if the command does not use it.
Command external_command(const External&, const RunSpec&, const std::filesystem::path& run_folder,
                         const std::filesystem::path& worker, const std::filesystem::path& start);

/// If a command printed its RunResult: writes the last JSON object of the log to result.json.
void keep_printed_result(const std::filesystem::path& run_folder);
/// If a command only reported its steps: writes them as its result to result.json.
void keep_reported_steps(const std::filesystem::path& run_folder);

/// Completes a successful program's result by what follows from its steps: tokens/s, and the time of a step.
/// `stored`: the result as the program wrote it. Throws an Error if it contradicts itself or did not train.
void complete_result(RunResult&, const Json& stored);

/// A program and each of its changes in the form of plugins, for plans: the gate uses their effects.
std::vector<UsedPlugin> as_plugins(const External&);
}  // namespace optrush
