#pragma once
#include <string>

#include "optrush/json.h"

namespace optrush {
/// The output of `doctor`, from the JSON of `doctor --json` (docs/schema/context.schema.json).
std::string doctor_page(const Json& context);
}  // namespace optrush
