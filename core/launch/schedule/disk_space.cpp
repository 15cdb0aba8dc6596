#include "launch/schedule/disk_space.h"

#include <exception>
#include <system_error>

#include "base/files.h"
#include "base/listed_files.h"
#include "base/number_text.h"
#include "launch/ranks/rank.h"
#include "launch/run/result.h"
#include "machine/environment.h"
#include "results/stored.h"
#include "spec/state_files.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
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
