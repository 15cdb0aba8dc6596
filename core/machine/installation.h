#pragma once
#include <filesystem>
#include <string>

namespace optrush {
/// The places of this program's parts, found from the running executable: in a build tree, or below an
/// installation prefix. Both have a file installation.json; a missing field is empty.
struct Installation {
  std::filesystem::path root;     ///< the build tree or the prefix
  bool installed = false;         ///< whether it is below a prefix: root/bin, root/lib, root/share/optrush
  std::filesystem::path worker;   ///< optrush-worker
  std::filesystem::path plugins;  ///< folder of the shipped plugins
  std::filesystem::path scripts;  ///< folder of the Lua library
  std::filesystem::path experiments;  ///< folder of the shipped experiments

  std::filesystem::path source;  ///< from installation.json: the source tree; only in a build tree
  /// From installation.json: the torch that was linked; a wheel searches for its torch
  std::filesystem::path torch;
  std::string commit;  ///< from installation.json: the commit that a wheel was built from

  static Installation of_this_program();
  /// The same for a program in the folder `bin`.
  static Installation of_programs_in(const std::filesystem::path& bin);
};
}  // namespace optrush
