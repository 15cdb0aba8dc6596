#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "report/writers/charts.h"

namespace optrush {
/// Draws `charts` into `folder` as <name>.svg (and .png), and writes report.html from `page` and the charts,
/// with the project's Python (scripts/charts). Returns the reason if it fails; "" otherwise.
std::string draw(const std::filesystem::path& folder, const Analysis&, const std::vector<Chart>& charts,
                 const std::string& page, bool png);
}  // namespace optrush
