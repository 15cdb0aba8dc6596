#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "report/writers.h"

namespace optrush {
/// Draws `charts` into `folder` as <name>.svg (and .png) and writes report.html with their library, through
/// vl-convert of the project's Python. Returns why it can't; empty: it is done.
std::string draw(const std::filesystem::path& folder, const std::vector<Chart>& charts,
                 const std::string& page, bool png);
}  // namespace optrush
