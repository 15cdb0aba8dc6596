#include "machine/installation.h"

#include "base/files.h"
#include "build_info.h"
#include "optrush/error.h"
#include "spec/value.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr const char* kFile = "installation.json";

void read_fields(const fs::path& file, Installation& found) {
  if (!fs::exists(file)) return;
  const Json fields = checked({.type = "object"}, read_json(file), "what is installed", file.string());
  const auto text = [&](const char* key) -> std::string {
    const auto it = fields.find(key);
    return it == fields.end() ? ""
                              : checked({.type = "string"}, *it, std::string("'") + key + "'", file.string());
  };
  found.source = text("source");
  found.torch = text("torch");
  found.commit = text("commit");
}

Installation below_prefix(const fs::path& prefix) {
  const fs::path data = prefix / OPTRUSH_INSTALL_DATA;
  Installation found{.root = prefix,
                     .installed = true,
                     .worker = prefix / "bin" / "optrush-worker",
                     .plugins = prefix / OPTRUSH_INSTALL_PLUGINS,
                     .scripts = data / "scripts",
                     .experiments = data / "experiments"};
  read_fields(data / kFile, found);
  return found;
}

Installation in_build_tree(const fs::path& tree) {
  Installation found{.root = tree, .worker = tree / "bin" / "optrush-worker", .plugins = tree / "plugins"};
  read_fields(tree / kFile, found);
  found.scripts = found.source / "scripts";
  found.experiments = found.source / "experiments";
  return found;
}
}  // namespace

Installation Installation::of_programs_in(const fs::path& bin) {
  const bool built_here = fs::exists(bin.parent_path() / kFile);
  if (!built_here && fs::exists(bin.parent_path() / OPTRUSH_INSTALL_PLUGINS))
    return below_prefix(bin.parent_path());
  // Test programs are deeper in a build tree than the programs that they test.
  for (fs::path folder = bin; folder != folder.parent_path(); folder = folder.parent_path())
    if (fs::exists(folder / kFile)) return in_build_tree(folder);
  throw Error(
      ErrorCode::missing_file,
      "the installation of Optimization Rush is incomplete around its program in '" + bin.string() + "'",
      "install it again: keep bin/, lib/ and share/ together");
}

Installation Installation::of_this_program() {
  return of_programs_in(fs::read_symlink("/proc/self/exe").parent_path());
}
}  // namespace optrush
