#pragma once
#include <filesystem>

#include "optrush/spec.h"

namespace optrush {
/// Training data of a case whose form requests "documents" or "preferences": documents of every length up to
/// a sequence, the same ones everywhere. A list of cases names the file, and the runner of the cases writes
/// both files beside the list.
DataSpec small_data(const std::string& kind);
void write_small_data(const std::filesystem::path& folder);
}  // namespace optrush
