#include "cli/shipped_experiments.h"

#include <algorithm>

#include "base/suggest.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;

std::vector<std::string> shipped_experiments(const Installation& here) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(here.experiments, none))
    if (entry.path().extension() == ".lua") names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

fs::path script_named(const std::string& argument, const Installation& here) {
  if (!argument.starts_with('@')) return argument;
  const std::string name = argument.substr(1);
  const auto names = shipped_experiments(here);
  if (std::ranges::find(names, name) == names.end())
    throw UsageError(ErrorCode::unknown_name, "there is no shipped experiment '" + name + "'",
                     names.empty()
                         ? "'" + here.experiments.string() + "' has no experiments; install the program again"
                         : did_you_mean(name, names));
  return here.experiments / (name + ".lua");
}
}  // namespace optrush
