#pragma once
#include <string>

#include "optrush/json.h"

namespace optrush {
/// What `doctor` prints, from what `doctor --json` writes (docs/schema/context.schema.json).
std::string doctor_page(const Json& context);
}  // namespace optrush
