#pragma once
#include <string>

#include "spec/record.h"

namespace optrush {
/// A run that measures one collective among all ranks.
struct CollectiveSpec {
  std::string op;
  int64_t bytes = int64_t{1} << 20;  ///< size of the larger of a rank's input and output, as in nccl-tests
  int64_t repeat = 1;                ///< consecutive calls in a step
};
Record<CollectiveSpec> record_of(const CollectiveSpec*);
}  // namespace optrush
