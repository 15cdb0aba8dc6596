#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "report/writers/charts.h"

namespace optrush {
/// Draws `charts` into `folder` as <name>.svg (and .png) and writes report.html, `page` with them, by the
/// project's Python (scripts/charts). Returns why it can't; empty: it is done.
std::string draw(const std::filesystem::path& folder, const Analysis&, const std::vector<Chart>& charts,
                 const std::string& page, bool png);
}  // namespace optrush
