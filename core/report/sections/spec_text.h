#pragma once
#include <string>
#include <vector>

#include "optrush/json.h"

namespace optrush {
/// A string as it is, anything else as JSON on one line.
std::string plain_text(const Json& value);
/// "train.steps = 10" for each leaf, in order; `prefix` "train" for those of a part.
std::vector<std::string> leaves_text(const Json& json, const std::string& prefix = "");
/// A stacked plugin: "NAME { rank = 4, alpha = 8 }".
std::string use_text(const Json& use);
/// What a variant (to_json) adds to the one that it is compared with, takes off it and sets: a line each.
std::vector<std::string> changes_text(const Json& variant);
}  // namespace optrush
