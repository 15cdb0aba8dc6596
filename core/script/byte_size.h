#pragma once
#include <string>

#include "optrush/json.h"

namespace optrush {
/// Parses a size such as 20e9, "20GB" or "512 MiB" to bytes. An Error names `what` and lists the forms.
double bytes_from(const Json& given, const std::string& what);
}  // namespace optrush
