#include "results/saved_states.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/suggest.h"
#include "base/text.h"
#include "results/stored.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// The names of a report's runs that have a saved state.
std::vector<std::string> runs_with_state(const fs::path& runs) {
  std::vector<std::string> names;
  for (const fs::path& run : folders_in(runs))
    if (is_there(run / "state/state.json")) names.push_back(run.filename());
  return names;
}

/// "01-fused" for the run "01-fused-r2".
std::string rung_of(const std::string& run) { return run.substr(0, run.rfind('-')); }
}  // namespace

Error without_state(const fs::path& given) {
  fs::path folder = fs::absolute(given).lexically_normal();
  for (const char* inside : {"", "state", "runs"})  // "": after a slash at the end
    if (folder.filename() == inside) folder = folder.parent_path();
  const std::string name = folder.filename(), quoted = "'" + given.string() + "'";
  if (!fs::exists(folder)) {
    const auto named = [](const fs::path& path) { return path.filename().string(); };
    const std::string best = nearest(name, texts_of(folders_in(folder.parent_path()), named));
    return {ErrorCode::missing_file, "there is no folder " + quoted,
            best.empty() ? "give the folder of a run with save = { every = ... }; its report names it"
                         : "did you mean '" + (folder.parent_path() / best).string() + "'?"};
  }
  const bool report = fs::is_directory(folder / "runs");
  const fs::path runs = report ? folder / "runs" : folder.parent_path();
  const std::vector<std::string> saved = runs_with_state(runs);
  const std::string problem = report ? quoted + " is a report, not a run" : "no state was saved in " + quoted;
  if (saved.empty())
    return {ErrorCode::missing_file, problem + (report ? ", and none of its runs has a saved state" : ""),
            "save = { every = ... } in the script saves the state of a run"};
  const auto same = std::ranges::find(saved, rung_of(name), rung_of);
  if (!report && same != saved.end())
    return {ErrorCode::missing_file, problem,
            "the state of this rung is in '" + (runs / *same).string() + "'"};
  return {ErrorCode::missing_file, problem,
          "these runs in '" + runs.string() + "' have a saved state: " + join(saved)};
}
}  // namespace optrush
