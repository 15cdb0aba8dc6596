#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "launch/run/metrics_tail.h"
#include "launch/schedule/schedule.h"
#include "process/process.h"
#include "results/run_result.h"

namespace optrush {
/// How another program reports its steps, as advice.
inline constexpr const char* kProgramReports =
    "loop over steps() of the Python package optimization_rush, or append one line per step to the file "
    "$OPTRUSH_METRICS: "
    R"({"event": "step", "step": 0, "timed": true, "tokens": 4096, "seconds": 0.2}; )"
    "loss, grad_norm and phases are optional (docs/guides/your_script.md)";

/// Reads a stored result; none if the file is missing or invalid, and `problem` states which.
std::optional<RunResult> read_result(const std::filesystem::path& run_folder, std::string* problem = nullptr);

/// The result of a run whose process has ended. A result that the worker wrote counts, however the process
/// ended. Otherwise the end of the process becomes a status with the last lines of the log.
RunResult conclude(const std::filesystem::path& run_folder, const ProcessEnd&, const Job&);

/// Completes the result of a run that has ended by the sums of its trace. Throws an Error, which ends the
/// experiment, if the run failed because the disk is full, which is not the rung's fault. The run then counts
/// as unfinished.
void complete_end(const std::filesystem::path& run_folder, RunResult&);
/// Writes the description of the run: spec.json, and external.json for another program. Returns the SHA-256
/// of spec.json.
std::string store_job(const std::filesystem::path& run_folder, const Job&);
/// Writes result.json, and the description if the run has removed it. Returns the SHA-256 of result.json.
std::string store_result(const std::filesystem::path& run_folder, const Job&, const RunResult&);
void note_orphans(RunResult&, const ProcessEnd&);

/// Status and reason of a failed process: crashed, timeout, or oom if the kernel killed it.
BadEnd describe_bad_end(const ProcessEnd&, const Limits&);
/// The same for a program that trained and left no result. `problem`: what is wrong with the result of a
/// successful process. The reason states its progress, the last line of its log after an exit code, advice,
/// and the last lines of the log, named `log_name`.
BadEnd describe_end(const ProcessEnd&, const Limits&, const std::string& problem,
                    const std::string& last_seen, const std::string& log_name, const std::string& log);
/// For example "after step 4 of 13" or "in phase loading".
std::string last_seen(const RunState&, const TrainSpec&);
/// The lines below a heading with the log's name; "" if the log is empty.
std::string last_lines(const std::string& log_name, const std::string& log);

/// The last bytes of a regular file; "" if it can't be read.
std::string end_of_file(const std::filesystem::path& file, int64_t bytes);
/// The last lines of a text, for a reason; log_tail() of a file. "" if it is empty.
std::string last_lines_of(std::string text);
std::string log_tail(const std::filesystem::path& log);

/// File in the run's folder: how the ranks ended in each failed start.
inline constexpr const char* kRankEnds = "rank_ends.jsonl";
/// Removes the files of a run from its folder, and the folder if it is then empty.
void clear_run(const std::filesystem::path& run_folder);
/// Before a run starts again: removes the same files, except those that describe failed starts (kRankEnds).
void clear_attempt(const std::filesystem::path& run_folder);
}  // namespace optrush
