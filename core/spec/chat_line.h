#pragma once
#include "optrush/json.h"

namespace optrush {
/// Whether a line of data is of messages, which a model's chat template writes as text.
bool is_chat(const Json& line);
}  // namespace optrush
