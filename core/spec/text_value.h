#pragma once
#include <string>

#include "optrush/json.h"

namespace optrush {
/// The value of this type from a command line: text unchanged for a string; otherwise JSON where it is some,
/// so that strings need no quotes.
Json text_value(const std::string& text, const std::string& type = "");
}  // namespace optrush
