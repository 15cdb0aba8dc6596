#pragma once
#include "optrush/json.h"

namespace optrush {
/// Whether a report's machine has a stand-in for a GPU (machine/stand_in.h), by its context.json.
bool ran_on_stand_in(const Json& context);
/// An Error that names the folder where it has.
void refuse_stand_in(const Json& context, const std::string& folder);
}  // namespace optrush
