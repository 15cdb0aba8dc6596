#pragma once
#include "optrush/json.h"

namespace optrush {
/// Whether a report's machine has a stand-in for a GPU (machine/stand_in.h), from its context.json.
bool ran_on_stand_in(const Json& context);
/// Throws an Error with the folder if it has.
void refuse_stand_in(const Json& context, const std::string& folder);
}  // namespace optrush
