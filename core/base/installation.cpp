#include "base/installation.h"

#include "build_info.h"

namespace optrush {
namespace fs = std::filesystem;

Installation Installation::of_this_program() {
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
  Installation found;
  found.worker = bin / "optrush-worker";
  // Test programs lie deeper in a build tree than the programs that they test.
  if (const fs::path prefix = bin.parent_path(); fs::exists(prefix / OPTRUSH_INSTALL_PLUGINS)) {
    found.root = prefix;
    found.installed = true;
    found.plugins = prefix / OPTRUSH_INSTALL_PLUGINS;
    found.scripts = prefix / OPTRUSH_INSTALL_DATA / "scripts";
    found.experiments = prefix / OPTRUSH_INSTALL_DATA / "experiments";
  } else {
    found.root = OPTRUSH_BUILD_DIR;
    found.worker = found.root / "bin" / "optrush-worker";
    found.plugins = found.root / "plugins";
    found.scripts = fs::path(OPTRUSH_SOURCE_DIR) / "scripts";
    found.experiments = fs::path(OPTRUSH_SOURCE_DIR) / "experiments";
  }
  return found;
}
}  // namespace optrush
