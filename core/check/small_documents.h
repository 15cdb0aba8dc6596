#pragma once
#include <filesystem>

#include "optrush/spec.h"

namespace optrush {
/// What a case trains on whose form asks for documents: some of every length up to a sequence, the same ones
/// everywhere. A list of cases names the file, and who runs them writes it beside the list.
DataSpec small_documents();
void write_small_documents(const std::filesystem::path& folder);
}  // namespace optrush
