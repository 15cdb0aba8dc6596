#include "results/rank_result.h"

namespace optrush {
const Record<RankResult>& record_of(const RankResult*) {
  using R = RankResult;
  static const auto record =
      Record<R>("a rank", "Seconds are medians over timed steps. Sent bytes are those of one step.")
          .field("rank", &R::rank, {.required = true, .schema = {{"minimum", 0}}})
          .field("host", &R::host, {})
          .field("device", &R::device, {})
          .field("step_seconds", &R::step_seconds, {.doc = "duration of the whole step", .nullable = true})
          .field("busy_seconds", &R::busy_seconds,
                 {.doc = "duration of the step without exposed communication", .nullable = true})
          .field("exposed_seconds", &R::exposed_seconds,
                 {.doc = "duration of communication that is not overlapped", .nullable = true})
          .field("peak_allocated", &R::peak_allocated,
                 {.doc = "active bytes", .nullable = true, .integer = true})
          .field("peak_reserved", &R::peak_reserved, {.nullable = true, .integer = true})
          .field("process", &R::process, {.nullable = true, .integer = true})
          .field("parts", &R::parts,
                 {.doc = "total of memory.parts on that rank, in bytes", .nullable = true, .integer = true})
          .field("sent_bytes", &R::sent_bytes, {.nullable = true});
  return record;
}

const Record<Collective>& record_of(const Collective*) {
  using C = Collective;
  static const auto record =
      Record<C>("a collective")
          .field("name", &C::name, {.doc = "all_reduce, all_gather, ...", .required = true})
          .field("group", &C::group, {.doc = "dimension of the mesh"})
          .field("ranks", &C::ranks, {.schema = {{"minimum", 1}}})
          .field("calls", &C::calls, {.nullable = true})
          .field("bytes", &C::bytes, {.doc = "bytes of the tensors", .nullable = true})
          .field("sent_bytes", &C::sent_bytes, {.doc = "bytes that this rank sends", .nullable = true})
          .field("theory_bytes", &C::theory_bytes,
                 {.doc = "bytes that this rank sends in theory", .nullable = true});
  return record;
}
}  // namespace optrush
