#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/journal.h"
#include "launch/schedule/schedule.h"
#include "results/run_result.h"

namespace optrush {
/// Attributes of a file that change when it is written or replaced.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t size = 0, seconds = 0, nanoseconds = 0;  ///< seconds, nanoseconds: time of the last change
  bool operator==(const FileStamp&) const = default;
};

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
  struct Result {
    std::optional<FileStamp> stamp;
    std::string sha256;
    std::optional<RunResult> result;  ///< none: the file is invalid
  };
  struct Sum {
    std::optional<FileStamp> stamp;
    std::string sha256;
  };
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
