#pragma once
#include <cstdint>
#include <vector>

namespace optrush {
/// The documents that lie in each sequence, one behind the other, by number.
using Rows = std::vector<std::vector<int64_t>>;
}  // namespace optrush
