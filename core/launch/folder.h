#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "experiment/experiment.h"

namespace optrush {
/// reports/<experiment>/<label>. Throws an Error if one of them can't be a folder's name.
std::filesystem::path report_folder(const std::filesystem::path& reports, const Experiment&);

/// Creates a report's folder and keeps other controllers out of it while the result lives. Throws an Error if
/// another process holds the lock.
[[nodiscard]] Descriptor lock_folder(const std::filesystem::path& folder);

bool has_report(const std::filesystem::path& folder);
/// Clears the folder if a new report replaces the old one, and notes it if that has more rounds. Throws an
/// Error if a report would be lost, or if the experiment was started with other arguments.
std::filesystem::path begun_report(const std::filesystem::path& folder, const Experiment&, bool resume,
                                   std::vector<std::string>& notes);
/// Throws an Error if a new report must not replace the one in the folder.
void check_replaceable(const std::filesystem::path& folder, const Experiment&);
/// Moves runs/NAME of a report to replaced/NAME (or NAME.2 if that exists), where no report counts it.
void archive_run(const std::filesystem::path& run);
/// Whether the first run of a variant continues from its saved state although its spec has changed.
using Continues = std::function<bool(const Variant&)>;
/// The reason why a run with a result does not belong to the experiment: another spec ("train.lr from 0.001
/// to 0.01"), a surplus round; "" if it does.
std::string why_unrelated(const std::filesystem::path& run, const std::vector<Variant>&, const Experiment&,
                          const Continues&);
}  // namespace optrush
