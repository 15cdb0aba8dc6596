#include "launch/ledger/input_files.h"

#include <algorithm>
#include <system_error>

#include "base/files.h"
#include "spec/run_identity.h"

namespace optrush {
namespace fs = std::filesystem;

bool InputFiles::same(const std::vector<UsedPlugin>& plugins) {
  return std::ranges::all_of(plugins, [&](const UsedPlugin& plugin) {
    std::error_code missing;
    const auto time = fs::last_write_time(plugin.file, missing);
    const bool there = !missing && fs::is_regular_file(plugin.file, missing);
    const auto written = there ? std::optional(time) : std::nullopt;
    Sum& known = plugins_[plugin.file];
    if (known.written != written) known = {written, there ? sha256_file(plugin.file) : ""};
    return !known.sha256.empty() && known.sha256 == plugin.sha256;
  });
}

const std::string& InputFiles::sum_of(const RunSpec& spec) {
  std::string& sum = inputs_[input_paths(spec)];
  if (sum.empty()) sum = sum_of_inputs(spec);
  return sum;
}
}  // namespace optrush
