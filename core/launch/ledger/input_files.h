#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiment/plan.h"
#include "optrush/spec.h"

namespace optrush {
/// Hashes of the files that runs read. Many runs name the same few plugins and data: a plugin is read again
/// only if it has changed, and data are inspected once.
class InputFiles {
 public:
  /// Whether the plugin files in a result's or a saved record's "plugins" are unchanged.
  bool same(const std::vector<UsedPlugin>&);
  const std::string& sum_of(const RunSpec&);

 private:
  struct Sum {
    std::optional<std::filesystem::file_time_type> written;  ///< none: there is no file
    std::string sha256;                                      ///< "" if there is no file
  };
  std::map<std::filesystem::path, Sum> plugins_;
  std::map<std::vector<std::string>, std::string> inputs_;  ///< by their paths
};
}  // namespace optrush
