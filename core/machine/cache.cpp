#include "optrush/machine.h"

#include <cstdlib>

namespace optrush {
namespace fs = std::filesystem;
namespace {
fs::path path_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}
}  // namespace

fs::path cache_folder(const std::string& kind) {
  if (const auto chosen = path_variable("OPTRUSH_CACHE"); !chosen.empty()) return chosen / kind;
  if (const auto xdg = path_variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg / "optimization-rush" / kind;
  const auto home = path_variable("HOME");
  return (home.empty() ? fs::temp_directory_path() : home / ".cache") / "optimization-rush" / kind;
}
}  // namespace optrush
