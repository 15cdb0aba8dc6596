#include "spec/collective_spec.h"

namespace optrush {
const Fields<CollectiveSpec>& collective_fields() {
  using T = CollectiveSpec;
  static const auto fields =
      Fields<T>()
          .required(&T::op,
                    {.name = "op",
                     .doc = "which",
                     .choices = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"}})
          .optional(&T::bytes, {.name = "bytes",
                                .doc = "bytes of the larger of a rank's input and output, as in nccl-tests; "
                                       "rounded up to an equal number of fp32 elements per rank",
                                .min = 4,
                                .max = int64_t{1} << 36})
          .optional(&T::repeat, {.name = "repeat",
                                 .doc = "calls per step, to reduce the share of other work",
                                 .min = 1,
                                 .max = 100000});
  return fields;
}

CollectiveSpec collective_from_json(const Json& json, const std::string& where) {
  return collective_fields().read(json, "model", where);
}
Json to_json(const CollectiveSpec& spec) { return collective_fields().write(spec); }
}  // namespace optrush
