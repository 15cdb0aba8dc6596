#include "launch/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <regex>
#include <thread>

#include "base/files.h"
#include "base/number_text.h"
#include "base/seconds_since.h"
#include "base/text.h"
#include "launch/ranks/rank.h"
#include "launch/run/result.h"
#include "optrush/error.h"
#include "results/stored.h"
#include "spec/run_identity.h"
#include "spec/spec_json.h"
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

/// The reason why a run is none of the present experiment, without a change of its spec.
constexpr const char* kNoSuchRun = "the experiment has no such run";

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
}  // namespace

std::string why_unrelated(const fs::path& run_folder, const std::vector<Variant>& variants,
                          const Experiment& experiment, const Continues& continues) try {
  const fs::path file = run_folder / "spec.json";
  const RunSpec spec = run_spec_from_json(read_json(file), file.string());
  if (spec.variant >= static_cast<int64_t>(variants.size())) return kNoSuchRun;
  const Variant& variant = variants[static_cast<size_t>(spec.variant)];
  if (run_id(variant, spec) != run_folder.filename() || !variant.has_own_runs()) return kNoSuchRun;
  if (spec.purpose != Purpose::measure && spec.purpose != Purpose::drift)
    return "";  // the gate compares the spec later
  const bool drift = spec.purpose == Purpose::drift;
  const auto rounds = rounds_of(experiment);
  if (rounds && !drift && spec.round >= *rounds) return kNoSuchRun;
  RunSpec expected = drift ? drift_of(variant.spec) : in_round(variant.spec, spec.round, experiment.seeds);
  expected.purpose = spec.purpose;
  expected.round = drift && rounds ? *rounds : spec.round;
  expected.trace = spec.trace;  // a trace does not change the result
  const fs::path command = run_folder / "external.json";
  const auto external = is_there(command)
                            ? std::optional(fields_of<External>().read(read_json(command), command.string()))
                            : std::nullopt;
  if (external != variant.external) return "its command has changed";
  const std::string changes = changes_of_spec(spec, expected);
  if (changes.empty() || (spec.purpose == Purpose::measure && spec.round == 0 && continues(variant)))
    return "";
  return changes;
} catch (const Error&) {
  return "its spec is missing or invalid";
}

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
  if (resume && has_report(folder)) check_arguments(folder, experiment);
  if (resume || !has_report(folder)) return folder;
  check_replaceable(folder, experiment);
  if (const int64_t before = rounds_in(folder), now = rounds_of(experiment).value_or(before); before > now)
    notes.push_back("warning: this replaces the report of " + counted(before, "round") + " in '" +
                    folder.string() + "' by one of " + counted(now, "round") +
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
}  // namespace optrush
