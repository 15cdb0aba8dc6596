#include "report/writers/tracking.h"

#include "base/files.h"
#include "base/temporary_folder.h"
#include "machine/installation.h"
#include "machine/python.h"
#include "optrush/error.h"
#include "process/process.h"
#include "report/writers/writers.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr double kExportTimeout = 600;
constexpr int kMissing = 3;  ///< exit code of tracking.py for a missing package

/// Runs of two exports in one folder would be shown together.
void require_new(const fs::path& folder) {
  if (fs::exists(folder) && !(fs::is_directory(folder) && fs::is_empty(folder)))
    throw Error(ErrorCode::conflict, "is there already", "remove it, or name another with --out",
                folder.string());
}

void run_script(Json job, const std::string& tracker, const fs::path& folder) {
  const fs::path python = project_python();
  if (python.empty())
    throw Error(ErrorCode::missing_requirement,
                "there is no Python environment, which writing for " + tracker + " needs",
                "./optrush setup makes one; OPTRUSH_PYTHON names another; --to csv needs none");
  job.update({{"tracker", tracker}, {"folder", fs::absolute(folder).string()}});
  const TemporaryFolder scratch;
  const fs::path file = scratch.path() / "job.json", log = scratch.path() / "log.txt";
  write_json(file, job);
  Interrupts interrupts;
  const fs::path script = Installation::of_this_program().scripts / "trackers/tracking.py";
  const ProcessEnd end = run_process({{python, script, file}, {}, log}, {kExportTimeout}, interrupts);
  if (end.ok()) return;
  const std::string said = last_line(read_file(log));
  if (end.kind == ProcessEnd::Kind::exited && end.code == kMissing)
    throw Error(ErrorCode::missing_requirement,
                python.string() + " has no package '" + said + "', which writing for " + tracker + " needs",
                python.string() + " -m pip install " + said);
  throw Error(ErrorCode::missing_requirement, "writing for " + tracker + " did not end well: " + said, "",
              folder.string());
}
}  // namespace

void write_tracked(const Analysis& a, const std::string& tracker, const fs::path& folder) {
  refuse_stand_in(a.context, folder.string());
  if (tracker == "csv") {
    fs::create_directories(folder);
    write_file(folder / "steps.csv", steps_csv(a));
    write_file(folder / "runs.csv", runs_csv(a));
    write_file(folder / "rungs.csv", csv(a));
    return;
  }
  require_new(folder);
  run_script(tracked_runs(a), tracker, folder);
}
}  // namespace optrush
