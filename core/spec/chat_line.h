#pragma once
#include "optrush/json.h"

namespace optrush {
/// Whether a line of data is a chat: a list of messages, to which the model's chat template is applied.
bool is_chat(const Json& line);
}  // namespace optrush
