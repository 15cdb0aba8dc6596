#include "launch/live_tracker.h"

#include <chrono>

#include "base/files.h"
#include "base/seconds_since.h"
#include "base/temporary_folder.h"
#include "launch/run/result.h"
#include "machine/installation.h"
#include "machine/python.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr double kCheckTimeout = 120, kLastWords = 30;
constexpr const char* kEnd = "end";  ///< file that tells the script to end
constexpr int kMissing = 3;          ///< exit code of the script for a missing package

fs::path folder_of(const std::string& tracker, const fs::path& report) {
  const fs::path folder = fs::absolute(report) / "live" / tracker;
  fs::create_directories(folder);
  fs::remove(folder / kEnd);
  return folder;
}

Command script_command(const std::vector<std::string>& arguments, const fs::path& log) {
  const fs::path script = Installation::of_this_program().scripts / "trackers/live_tracker.py";
  Command command{.arguments = {project_python(), script},
                  .environment = {{"OMP_NUM_THREADS", "1"}},
                  .log = log,
                  .helper = true};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  return command;
}
}  // namespace

void LiveTracker::check(const std::string& tracker, Interrupts& interrupts) {
  const fs::path python = project_python();
  if (python.empty())
    throw UsageError(ErrorCode::missing_requirement,
                     "--track " + tracker + " needs a Python environment, and there is none",
                     "./optrush setup makes one; OPTRUSH_PYTHON names another");
  const TemporaryFolder scratch;
  const fs::path log = scratch.path() / "log.txt";
  const ProcessEnd end = run_process(script_command({tracker}, log), {kCheckTimeout}, interrupts);
  if (interrupts.signal() != 0 || end.ok()) return;
  const std::string said = log_tail(log);
  if (end.kind == ProcessEnd::Kind::exited && end.code == kMissing)
    throw UsageError(ErrorCode::missing_requirement,
                     "--track " + tracker + " needs the package '" + said + "', which " + python.string() +
                         " does not have",
                     python.string() + " -m pip install " + said);
  throw UsageError(ErrorCode::missing_requirement, "--track " + tracker + " cannot be used here: " + said,
                   "run without --track");
}

LiveTracker::LiveTracker(const std::string& tracker, const fs::path& report, const std::string& experiment,
                         Interrupts& interrupts)
    : folder_(folder_of(tracker, report)),
      interrupts_(interrupts),
      process_(script_command({tracker, fs::absolute(report).string(), folder_.string(), experiment},
                              folder_ / "log.txt")) {}

LiveTracker::~LiveTracker() {
  if (!problem().empty()) return;
  try {
    write_file(folder_ / kEnd, "");
  } catch (const Error&) {  // for example a full disk; the destructor ends the script
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  while (!process_.poll() && seconds_since(start) < kLastWords)
    interrupts_.wait(std::chrono::milliseconds(20));
}

std::string LiveTracker::problem() {
  if (problem_.empty())
    if (const auto end = process_.poll())
      problem_ = describe_bad_end(*end, {}).reason +
                 last_lines((folder_ / "log.txt").string(), log_tail(folder_ / "log.txt"));
  return problem_;
}
}  // namespace optrush
