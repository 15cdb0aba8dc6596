#pragma once
#include <nlohmann/json.hpp>

namespace optrush {
/// The type of every spec, plan and result. Keys keep their order, so output is deterministic.
using Json = nlohmann::ordered_json;
}  // namespace optrush
