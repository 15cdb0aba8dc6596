#pragma once
#include <string>

#include "optrush/json.h"

namespace optrush {
// Documents of a report that stay JSON: what it reads of them is there and of its type, else an Error that
// names the field and `where`. Other fields may be anything.

/// tried.json
void check_tried(const Json&, const std::string& where);
}  // namespace optrush
