#pragma once
#include <cstdint>

namespace optrush {
/// The position of a run in its data.
struct DataPosition {
  int64_t samples = 0;  ///< number of samples that all ranks have read; the number of the next sample
  int64_t order = 0;    ///< Batches::order() of the data
};
}  // namespace optrush
