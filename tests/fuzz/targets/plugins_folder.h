#pragma once
#include "../../scripts/described_plugins.h"
#include "target.h"

namespace optrush::fuzz {
/// A folder of plugin files with descriptions only, made once for the process.
inline const std::filesystem::path& plugins_folder() {
  static const Files files;
  static const bool written = (testing::write_described_plugins(files.path()), true);
  static_cast<void>(written);
  return files.path();
}
}  // namespace optrush::fuzz
