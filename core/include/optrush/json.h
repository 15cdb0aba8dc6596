#pragma once
#include <nlohmann/json.hpp>

namespace optrush {
/// Every spec, plan and result. Keys keep the order in which they were written, so output is deterministic.
using Json = nlohmann::ordered_json;
}  // namespace optrush
