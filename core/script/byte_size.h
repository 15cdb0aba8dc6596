#pragma once
#include <string>

#include "optrush/json.h"

namespace optrush {
/// 20e9, "20GB", "512 MiB": in bytes. An Error lists the forms; `what` names the value.
double bytes_from(const Json& given, const std::string& what);
}  // namespace optrush
