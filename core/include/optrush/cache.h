#pragma once
#include <filesystem>
#include <string>

namespace optrush {
/// The folder of one kind of artifact that later runs use again, such as compiled code: `kind` in
/// $OPTRUSH_CACHE, else in $XDG_CACHE_HOME/optimization-rush, else in ~/.cache/optimization-rush. It may not
/// exist yet.
std::filesystem::path cache_folder(const std::string& kind);
}  // namespace optrush
