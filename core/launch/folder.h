#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"

namespace optrush {
/// reports/<experiment>/<label>; an Error where one of the two is no name of a folder.
std::filesystem::path report_folder(const std::filesystem::path& reports, const Experiment&);

/// Keeps a second controller out of a report's folder.
class FolderLock {
 public:
  /// Makes the folder; an Error where another process holds it.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

/// Whether the folder has files of an experiment.
bool has_report(const std::filesystem::path& folder);
/// `folder`, ready to be read and added to: cleared, where a new report takes the place of another one. An
/// Error where that would lose one, or where the experiment was begun with other arguments.
std::filesystem::path begun_report(const std::filesystem::path& folder, const Experiment&, bool resume);
/// An Error unless a new report may take the place of the one that is in the folder.
void check_replaceable(const std::filesystem::path& folder, const Experiment&);
/// Removes what this program writes into a report's folder; other files stay.
void clear_report(const std::filesystem::path& folder);
/// Moves runs/NAME of a report, with all that it has, to replaced/NAME, or NAME.2 beside an
/// older one, where no report counts it.
void set_aside(const std::filesystem::path& run);
/// Moves results that the experiment, as it is now, would count wrongly (another spec, a round too many) from
/// runs/ to replaced/. Returns their names.
std::vector<std::string> set_aside_strangers(const std::filesystem::path& folder, const std::vector<Variant>&,
                                             std::optional<int64_t> rounds);
}  // namespace optrush
