#include "launch/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <iterator>
#include <regex>
#include <system_error>
#include <thread>

#include "base/files.h"
#include "base/listed_files.h"
#include "base/number_text.h"
#include "base/seconds_since.h"
#include "base/text.h"
#include "launch/ranks/rank.h"
#include "launch/run/result.h"
#include "machine/environment.h"
#include "optrush/error.h"
#include "results/stored.h"
#include "spec/state_files.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
void check_name(const std::string& what, const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (name.empty() || name.front() == '.' || name.size() > 100 || !std::ranges::all_of(name, allowed))
    throw UsageError(ErrorCode::invalid_value, what + " '" + name + "' is not a valid folder name",
                     "use at most 100 letters, digits, '-', '_' and '.', and do not start with '.'");
}

/// The charts that report.md shows: "![speed](speed.svg)".
std::vector<std::string> charts_in(const fs::path& report) {
  std::vector<std::string> charts;
  if (!fs::is_regular_file(report)) return charts;
  static const std::regex kChart(R"(!\[([a-z0-9-]+)\]\(\1\.svg\))");
  const std::string text = read_file(report);
  for (std::sregex_iterator found(text.begin(), text.end(), kChart), end; found != end; ++found)
    charts.push_back((*found)[1].str() + ".svg");
  return charts;
}

/// Throws an Error if arguments differ: a report has one value per argument. An argument that was not read
/// before belongs to a changed script.
void check_arguments(const fs::path& folder, const Experiment& experiment) {
  const fs::path file = folder / "experiment.json";
  if (!is_there(file)) return;
  const Experiment before = experiment_from_json(read_json(file), file.string());
  if (before.stop_behind > 0 && std::pair(before.target_loss, before.stop_behind) !=
                                    std::pair(experiment.target_loss, experiment.stop_behind))
    throw UsageError(ErrorCode::conflict,
                     "the runs in '" + folder.string() + "' ended at a loss of " +
                         exact_number(before.target_loss) +
                         ", with stop_behind = " + exact_number(before.stop_behind),
                     "give the same target_loss and stop_behind, or another --label");
  for (const auto& [name, value] : experiment.arguments.items())
    if (const auto old = before.arguments.find(name); old != before.arguments.end() && *old != value)
      throw UsageError(ErrorCode::conflict,
                       "the report in '" + folder.string() + "' was started with " + name + " = " +
                           old->dump() + ", not " + value.dump(),
                       "give --arg " + name + "=" +
                           (old->is_string() ? old->get<std::string>() : old->dump()) +
                           ", or another --label");
}

/// The number of rounds of which a report has results.
int64_t rounds_in(const fs::path& folder) {
  int64_t rounds = 0;
  static const std::regex kMeasured("-r([0-9]{1,9})$");
  for (const auto& run : folders_in(folder / "runs"))
    if (std::smatch found; is_there(run / "result.json")) {
      const std::string name = run.filename();
      if (std::regex_search(name, found, kMeasured)) rounds = std::max<int64_t>(rounds, std::stoll(found[1]));
    }
  return rounds;
}

/// The script of a report; "" if it is not known.
std::string script_of(const fs::path& report) try {
  return read_json(report / "experiment.json").value("script", "");
} catch (const std::exception&) {
  return "";
}

/// Removes the files of this program from a report's folder. Other files stay.
void clear_report(const fs::path& folder) {
  // The journal first: if this process is killed, everything left counts as never started. The charts are
  // known from report.md.
  std::vector<std::string> files = {"journal.jsonl", "experiment.json"};
  std::ranges::move(charts_in(folder / "report.md"), std::back_inserter(files));
  for (const char* name : {"variants.json", "plans.json", "context.json", "noise.jsonl", "peaks.jsonl",
                           "report.md", "report.html", "results.csv", "results.json", "runs.jsonl",
                           "summary.json", "summary.txt", "tried.json"})
    files.emplace_back(name);
  for (const auto& name : files) fs::remove_all(folder / name);
  fs::remove_all(folder / "live");
  remove_unfinished(folder, files);
  for (const char* name : {"runs", "replaced"}) {
    for (const auto& run : folders_in(folder / name)) {
      forget_records(run / "state");
      clear_run(run);
    }
    if (fs::is_directory(folder / name) && fs::is_empty(folder / name)) fs::remove(folder / name);
  }
}

/// Free bytes of the file system on which a folder is or will be made.
std::optional<double> free_bytes(const fs::path& folder) {
  fs::path there = fs::absolute(folder);
  while (!fs::is_directory(there) && there.has_relative_path()) there = there.parent_path();
  std::error_code failed;
  const auto space = fs::space(there, failed);
  return failed ? std::nullopt : std::optional(static_cast<double>(space.available));
}

double bytes_in(const fs::path& folder) {
  double sum = 0;
  for (const ListedFile& file : listed_files(folder, Unreadable::skipped))
    sum += static_cast<double>(file.size);
  return sum;
}

/// Whether a report was made on this machine. A damaged one counts as another machine's.
bool is_from_here(const fs::path& report) try {
  return is_there(report / "context.json") &&
         read_json(report / "context.json").value("host", "") == host_name();
} catch (const std::exception&) {
  return false;
}
}  // namespace

fs::path report_folder(const fs::path& reports, const Experiment& experiment) {
  check_name("the experiment's name", experiment.name);
  check_name("the label", experiment.label);
  return reports / experiment.name / experiment.label;
}

Descriptor lock_folder(const fs::path& folder) {
  fs::create_directories(folder);
  Descriptor lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.get() < 0)
    throw Error(ErrorCode::file_access, "cannot open '" + folder.string() + "': " + std::strerror(errno));
  // A killed controller may leave a child that holds the lock until it executes its program.
  const auto start = std::chrono::steady_clock::now();
  do {
    if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (seconds_since(start) < 1);
  throw Error(ErrorCode::conflict, "another optrush process uses '" + folder.string() + "'",
              "wait until it ends, or use a different --label");
}

bool has_report(const fs::path& folder) {
  return is_there(folder / "experiment.json") || is_there(folder / "journal.jsonl");
}

void check_replaceable(const fs::path& folder, const Experiment& experiment) {
  if (experiment.label != "local")
    throw UsageError(ErrorCode::conflict, "'" + folder.string() + "' already contains a report",
                     "run its missing runs with --resume, or use a different --label to keep it");
  // Trained states are worth more than measurements and must not be replaced by mistake.
  for (const fs::path& run : folders_in(folder / "runs"))
    for (const fs::path& state : {state_folder(run), best_state_folder(run)})
      if (is_there(state / "state.json"))
        throw UsageError(
            ErrorCode::conflict,
            "the report in '" + folder.string() + "' contains a saved state: " + state.string(),
            "run its missing runs with --resume, use a different --label to keep it, or remove the folder to "
            "start over");
}

fs::path begun_report(const fs::path& folder, const Experiment& experiment, bool resume,
                      std::vector<std::string>& notes) {
  if (resume && !has_report(folder))
    notes.push_back("there is no report in '" + folder.string() + "' to resume, so all runs begin");
  if (!has_report(folder)) return folder;
  const int64_t before = rounds_in(folder), now = rounds_of(experiment).value_or(before);
  if (resume) {
    check_arguments(folder, experiment);
    if (before > now)  // they would not count any more
      throw UsageError(
          ErrorCode::conflict,
          "the report in '" + folder.string() + "' has " + counted(before, "round") +
              ", and this run asks for " + std::to_string(now) + " in all",
          "ask for " + std::to_string(before) + " or more (--rounds, or seeds), or use another --label");
    return folder;
  }
  check_replaceable(folder, experiment);
  const std::string script = script_of(folder),
                    of_other = script.empty() || script == experiment.script ? "" : " of '" + script + "'";
  if (before > now || !of_other.empty())
    notes.push_back("warning: this replaces the report of " + counted(before, "round") + of_other + " in '" +
                    folder.string() + "'" + (before > now ? " by one of " + counted(now, "round") : "") +
                    "; a report with another --label is not replaced");
  clear_report(folder);
  return folder;
}

void archive_run(const fs::path& run) {
  const fs::path replaced = run.parent_path().parent_path() / "replaced";
  fs::create_directories(replaced);
  const std::string name = run.filename();
  fs::path aside = replaced / name;
  for (int64_t older = 2; fs::exists(aside); ++older) aside = replaced / (name + "." + std::to_string(older));
  fs::rename(run, aside);
}

std::string DiskSpace::lacking(const PlannedSaving& saving, const fs::path& run_folder) {
  // A run that was skipped has a result, too, but no state.
  if (is_there(run_folder / "result.json") && fs::is_directory(state_folder(run_folder))) return "";
  const auto free = free_bytes(folder_);
  const double there = bytes_in(state_folder(run_folder)) + bytes_in(best_state_folder(run_folder));
  if (!free || reserved_ + saving.disk - there <= *free) {
    reserved_ += saving.kept - there;
    return "";
  }
  return "its saved states need " + bytes(saving.disk) + " (" + grouped(saving.disk) +
         " bytes) of disk at once" + (saving.disk > saving.kept ? ", old and new state together" : "") +
         ", but '" + folder_.string() + "' has " + bytes(*free) + " free" +
         (reserved_ > 0 ? ", of which the states of the rungs before it need " + bytes(reserved_) : "") +
         "; free disk space, give --reports a folder on a larger disk, or leave out save";
}

std::optional<double> write_rate(const fs::path& reports) {
  fs::path newest;
  for (const fs::path& experiment : folders_in(reports))
    for (const fs::path& report : folders_in(experiment)) {
      if (!is_from_here(report)) continue;
      for (const fs::path& run : folders_in(report / "runs"))
        if (const fs::path head = state_head(state_folder(run));
            is_there(head) && is_there(run / "result.json") &&
            (newest.empty() ||
             fs::last_write_time(head) > fs::last_write_time(state_head(state_folder(newest)))))
          newest = run;
    }
  const auto result = newest.empty() ? std::nullopt : read_result(newest);
  double saved = 0, seconds = 0;
  if (result)
    for (const SavedPoint& point : result->saved) {
      saved += point.bytes;
      seconds += point.seconds;
    }
  return seconds > 0 ? std::optional(saved / seconds) : std::nullopt;
}
}  // namespace optrush
