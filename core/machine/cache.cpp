#include "optrush/machine.h"

#include "machine/environment.h"

namespace optrush {
namespace fs = std::filesystem;

fs::path cache_folder(const std::string& kind) {
  if (const auto chosen = environment_variable("OPTRUSH_CACHE"); !chosen.empty())
    return fs::path(chosen) / kind;
  if (const auto xdg = environment_variable("XDG_CACHE_HOME"); !xdg.empty())
    return fs::path(xdg) / "optimization-rush" / kind;
  const fs::path home = environment_variable("HOME");
  return (home.empty() ? fs::temp_directory_path() : home / ".cache") / "optimization-rush" / kind;
}
}  // namespace optrush
