#pragma once
#include <string>

#include "optrush/json.h"

namespace optrush {
/// A value given on the command line. For type "string" it is the text itself. Otherwise the text is parsed
/// as JSON if it is valid JSON, so strings need no quotes.
Json text_value(const std::string& text, const std::string& type = "");
}  // namespace optrush
