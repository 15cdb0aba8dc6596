#pragma once
#include <string>

#include "optrush/json.h"

namespace optrush {
/// What a command line gives for a value of this type: text as it is for a string; else JSON where it is
/// some, so that strings need no quotes.
Json text_value(const std::string& text, const std::string& type = "");
}  // namespace optrush
