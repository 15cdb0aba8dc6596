#include "spec/collective_spec.h"

namespace optrush {
Record<CollectiveSpec> record_of(const CollectiveSpec*) {
  using T = CollectiveSpec;
  return Record<T>::given("model")
      .field("op", &T::op, "which",
             {.required = true,
              .choices = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"}})
      .field("bytes", &T::bytes,
             "bytes of the larger of a rank's input and output, as in nccl-tests; rounded up to an equal "
             "number of fp32 elements per rank",
             {.min = 4, .max = int64_t{1} << 36})
      .field("repeat", &T::repeat, "calls per step, to reduce the share of other work",
             {.min = 1, .max = 100000});
}
}  // namespace optrush
