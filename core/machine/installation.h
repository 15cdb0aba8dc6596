#pragma once
#include <filesystem>
#include <string>

namespace optrush {
/// Where the parts of this program are, found from the running executable: in a build tree, or below the
/// prefix that it was installed to. Either has a file installation.json, whose fields are given here; a
/// field that it lacks is empty.
struct Installation {
  std::filesystem::path root;         ///< the build tree or the prefix
  bool installed = false;             ///< below a prefix: root/bin, root/lib, root/share/optrush
  std::filesystem::path worker;       ///< optrush-worker
  std::filesystem::path plugins;      ///< folder of the plugins that ship
  std::filesystem::path scripts;      ///< folder of the Lua library
  std::filesystem::path experiments;  ///< folder of the experiments that ship

  std::filesystem::path source;  ///< installation.json: the source tree, of a build tree only
  std::filesystem::path torch;   ///< installation.json: the torch that was linked; a wheel finds its own
  std::string commit;            ///< installation.json: what a wheel was built from

  static Installation of_this_program();
  /// The same for a program in the folder `bin`.
  static Installation of_programs_in(const std::filesystem::path& bin);
};
}  // namespace optrush
