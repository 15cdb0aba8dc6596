#pragma once
#include <string>

#include "optrush/json.h"

namespace optrush {
// Checks of a report's documents that are kept as JSON: the fields that the report reads exist and have their
// type. Otherwise an Error names the field and `where`. Other fields may be anything.

/// tried.json
void check_tried(const Json&, const std::string& where);
}  // namespace optrush
