#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "launch/journal.h"
#include "launch/run/metrics_tail.h"
#include "launch/schedule/schedule.h"
#include "optrush/error.h"
#include "optrush/json.h"
#include "process/process.h"
#include "results/run_result.h"

namespace optrush {
/// A stored result; none where the file is missing or is no such thing, and `problem`
/// says which.
std::optional<RunResult> read_result(const std::filesystem::path& run_folder, std::string* problem = nullptr);

/// The result of a run whose process has ended. What the worker wrote counts, however it went down
/// afterwards; where it wrote nothing, its end becomes a status with the last lines of its log, and is stored
/// as its result.json.
RunResult conclude(const std::filesystem::path& run_folder, const ProcessEnd&, const Job&);

/// An Error, which ends the experiment, where a run ended badly on a full disk: that says nothing about a
/// rung. The run is then an unfinished one.
void check_disk(const std::filesystem::path& run_folder, const RunResult&);
/// Writes the description of the run: spec.json, and external.json of another program.
void store_job(const std::filesystem::path& run_folder, const Job&);
/// As result.json, whatever is there now. The job as well where the run has removed it.
void store_result(const std::filesystem::path& run_folder, const Job&, const RunResult&);
void note_orphans(RunResult&, const ProcessEnd&);

/// Stores the result of a run that can't be started.
RunResult store_unstarted(const std::filesystem::path& run_folder, const Job&, const BadEnd&,
                          std::optional<Cause> = {});

/// Status and reason of a process that ended badly: crashed, timeout, or oom where the kernel killed it.
BadEnd describe_bad_end(const ProcessEnd&, const Limits&);
/// The same of a program that trained and left no result: `problem` is what was wrong with that where it
/// ended well. The reason says how far it came, what may help and what its log, which `log_name` names, said
/// last.
BadEnd describe_end(const ProcessEnd&, const Limits&, const std::string& problem,
                    const std::string& last_seen, const std::string& log_name, const std::string& log);
/// "after step 4 of 13", "in phase loading".
std::string last_seen(const RunState&, const TrainSpec&);
/// "\nlast lines of log.txt:\n..."; "" where it said nothing.
std::string last_lines(const std::string& log_name, const std::string& log);

/// The last bytes of a regular file; nothing where it can't be read.
std::string end_of_file(const std::filesystem::path& file, int64_t bytes);
/// The last lines of a text, for a reason; "" where it is empty.
std::string last_lines_of(std::string text);
/// The last lines of a log, for a reason; "" where it is empty.
std::string log_tail(const std::filesystem::path& log);

/// How the ranks of a run ended in each start that failed, in the run's folder.
inline constexpr const char* kRankEnds = "rank_ends.jsonl";
/// Removes what a run writes from its folder, and the folder where nothing else is in it.
void clear_run(const std::filesystem::path& run_folder);
/// Before a run starts again: removes the same files except those that describe failed starts (kRankEnds).
void clear_attempt(const std::filesystem::path& run_folder);
}  // namespace optrush
