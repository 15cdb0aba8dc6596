#pragma once
#include <string>
#include <string_view>

#include "report/sections/document.h"

namespace optrush {
/// Aligned columns with titles, for a terminal.
std::string text_table(const Table&);
}  // namespace optrush
