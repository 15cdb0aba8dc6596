#pragma once
#include <filesystem>

namespace optrush {
/// Where the parts of this program are, found from the running executable: in a build tree, or below the
/// prefix that it was installed to.
struct Installation {
  std::filesystem::path root;         ///< the build tree or the prefix
  bool installed = false;             ///< below a prefix: root/bin, root/lib, root/share/optrush
  std::filesystem::path worker;       ///< optrush-worker
  std::filesystem::path plugins;      ///< folder of the plugins that ship
  std::filesystem::path scripts;      ///< folder of the Lua library
  std::filesystem::path experiments;  ///< folder of the experiments that ship

  static Installation of_this_program();
};
}  // namespace optrush
