#include <algorithm>

#include "base/contains.h"
#include "base/suggest.h"
#include "cli/commands.h"
#include "machine/installation.h"

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
  const auto names = shipped_experiments(here);
  const bool shipped = argument.starts_with('@');
  const std::string name = shipped ? argument.substr(1) : fs::path(argument).stem().string();
  const bool known = contains(names, name);
  if (!shipped) {
    if (known && !fs::exists(argument))
      throw UsageError(ErrorCode::unknown_name, "there is no script '" + argument + "'",
                       "did you mean the shipped experiment '@" + name + "'?");
    return argument;
  }
  if (!known)
    throw UsageError(ErrorCode::unknown_name, "there is no shipped experiment '" + name + "'",
                     names.empty()
                         ? "'" + here.experiments.string() + "' has no experiments; install the program again"
                         : did_you_mean(name, names));
  return here.experiments / (name + ".lua");
}
}  // namespace optrush
