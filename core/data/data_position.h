#pragma once
#include <cstdint>

namespace optrush {
/// How far a run has read its data.
struct DataPosition {
  int64_t samples = 0;  ///< that all ranks have read, which is the number of the next one
  int64_t order = 0;    ///< Batches::order() of what was read
};
}  // namespace optrush
