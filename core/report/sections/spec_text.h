#pragma once
#include <string>
#include <vector>

#include "optrush/json.h"

namespace optrush {
/// A string unchanged; other values as JSON on one line.
std::string plain_text(const Json& value);
/// "train.steps = 10" for each leaf, in order. `prefix`: "train" for the fields of a part.
std::vector<std::string> leaves_text(const Json& json, const std::string& prefix = "");
/// A plugin with options: "NAME { rank = 4, alpha = 8 }".
std::string use_text(const Json& use);
/// What a variant (as JSON) adds, removes and sets relative to its reference, one line each.
std::vector<std::string> changes_text(const Json& variant);
}  // namespace optrush
