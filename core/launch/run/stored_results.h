#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/journal.h"
#include "launch/schedule/schedule.h"
#include "results/run_result.h"

namespace optrush {
/// The results that earlier starts left in a report's folder. A resume asks for each several times, and all
/// of them name the same few plugins and data. Files are read again only if they have changed, and data are
/// inspected once.
class StoredResults {
 public:
  /// `journal` must outlive it.
  StoredResults(std::filesystem::path runs, const Journal& journal)
      : runs_(std::move(runs)), journal_(journal) {}

  /// The stored result of a job, without the phases of its steps, if it is valid: it is readable, the journal
  /// has it for this spec, and its input files are unchanged. Otherwise null; if something has changed,
  /// `why_not` names it. The pointer is valid until the file changes.
  const RunResult* if_done(const Job&, std::string* why_not = nullptr);
  /// Whether the bytes of a run's result are not those that the journal has.
  bool was_changed(const std::string& run);
  /// Whether the plugin files in a result's or saved record's "plugins" are unchanged.
  bool same_plugins(const std::vector<UsedPlugin>&);
  /// sum_of_inputs() of the spec.
  const std::string& inputs_of(const RunSpec&);

 private:
  using Time = std::optional<std::filesystem::file_time_type>;
  struct Sum {
    Time written;  ///< none: there is no file
    std::string sha256;
  };
  struct Result : Sum {
    std::optional<RunResult> result;  ///< none: the file is invalid
  };
  static Time time_of(const std::filesystem::path&);
  const Result& read(const std::string& run);
  /// The hash of a file; "" if it is missing.
  const std::string& sum_of(const std::filesystem::path& file);

  std::filesystem::path runs_;
  const Journal& journal_;
  std::map<std::string, Result> results_;                   ///< results by run
  std::map<std::filesystem::path, Sum> sums_;               ///< hashes of plugin files
  std::map<std::vector<std::string>, std::string> inputs_;  ///< hashes of inputs, by their paths
};
}  // namespace optrush
