#pragma once
#include <filesystem>

#include "optrush/spec.h"

namespace optrush {
/// Training data for forms that request "documents" or "preferences": documents of all lengths up to a
/// sequence, equal on every machine. A list of cases names the file; before the cases run, write_small_data()
/// writes both files beside the list.
DataSpec small_data(const std::string& kind);
void write_small_data(const std::filesystem::path& folder);
}  // namespace optrush
