// Quantities: published figures.
#include "report/analysis/quantity_parts.h"

namespace optrush {
namespace {
using A = const Analysis&;
using R = const Row&;

/// A published value is above 0; none otherwise.
template <auto Member>
MaybeNumber published_field(A, R row) {
  return row.published && (*row.published).*Member > 0 ? MaybeNumber((*row.published).*Member) : std::nullopt;
}
}  // namespace

std::vector<Quantity> published_quantities() {
  return {
      {.csv = "published_speedup",
       .json = "published/speedup",
       .value = published_field<&Published::speedup>,
       .doc = "published tokens/s relative to the rung below, from the script's `expect`"},
      {.csv = "published_memory",
       .json = "published/memory",
       .value = published_field<&Published::memory>,
       .doc = "published peak memory relative to the rung below"},
      {.csv = "published_on",
       .word = [](A, R r) { return r.published ? r.published->on : std::string(); },
       .doc = "device and problem of the published figures"},
      {.csv = "published_source",
       .word = [](A, R r) { return r.published ? r.published->source : std::string(); },
       .doc = "source of the published figures"},
  };
}
}  // namespace optrush
