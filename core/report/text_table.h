#pragma once
#include <string>
#include <string_view>

#include "report/document.h"

namespace optrush {
/// Aligned columns below their titles, for a terminal.
std::string text_table(const Table&);
}  // namespace optrush
