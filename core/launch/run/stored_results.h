#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_stamp.h"
#include "launch/journal.h"
#include "launch/schedule/schedule.h"
#include "results/run_result.h"

namespace optrush {
/// The results that a report's folder has from earlier starts. A resume asks for each several times, and all
/// of them name the same few plugins and data: files are read again only when they have changed, and the data
/// are looked at once.
class StoredResults {
 public:
  /// `journal` has to outlive it.
  StoredResults(std::filesystem::path runs, const Journal& journal)
      : runs_(std::move(runs)), journal_(journal) {}

  /// The result that makes a job done, without the phases of its steps: it is readable, the journal says that
  /// it belongs to this very spec, and the files that it was measured with are the same today. Otherwise
  /// null; if something has changed, `why_not` names it. The pointer is valid until the file changes.
  const RunResult* if_done(const Job&, std::string* why_not = nullptr);
  /// Whether the plugin files that a result's or a saved record's "plugins" name are the same today.
  bool same_plugins(const std::vector<UsedPlugin>&);
  /// sum_of_inputs() of the spec.
  const std::string& inputs_of(const RunSpec&);

 private:
  struct Result {
    std::optional<FileStamp> stamp;
    std::string sha256;
    std::optional<RunResult> result;  ///< none: the file is no result
  };
  struct Sum {
    std::optional<FileStamp> stamp;
    std::string sha256;
  };
  const Result& read(const std::string& run);
  /// "" where there is no file.
  const std::string& sum_of(const std::filesystem::path& file);

  std::filesystem::path runs_;
  const Journal& journal_;
  std::map<std::string, Result> results_;                   ///< by run
  std::map<std::filesystem::path, Sum> sums_;               ///< of plugins
  std::map<std::vector<std::string>, std::string> inputs_;  ///< by their paths
};
}  // namespace optrush
