#include "results/rank_result.h"

#include "base/value.h"
#include "results/read_fields.h"

namespace optrush {
RankResult rank_result_from_json(const Json& json) {
  check_keys(json,
             {"rank", "host", "device", "step_seconds", "busy_seconds", "exposed_seconds", "peak_allocated",
              "peak_reserved", "process", "parts", "sent_bytes"},
             "field", "a rank", {});
  return {required<int64_t>(json, "rank"),
          optional_field<std::string>(json, "host").value_or(""),
          optional_field<std::string>(json, "device").value_or(""),
          number(json, "step_seconds"),
          number(json, "busy_seconds"),
          number(json, "exposed_seconds"),
          number(json, "peak_allocated"),
          number(json, "peak_reserved"),
          number(json, "process"),
          number(json, "parts"),
          number(json, "sent_bytes")};
}

Collective collective_from_json(const Json& json) {
  check_keys(json, {"name", "group", "ranks", "calls", "bytes", "sent_bytes", "theory_bytes"}, "field",
             "a collective", {});
  return {required<std::string>(json, "name"),
          optional_field<std::string>(json, "group").value_or(""),
          optional_field<int64_t>(json, "ranks").value_or(1),
          number(json, "calls"),
          number(json, "bytes"),
          number(json, "sent_bytes"),
          number(json, "theory_bytes")};
}

MeshDimension mesh_dimension_from_json(const Json& json) {
  check_keys(json, {"dim", "size"}, "field", "a dimension of the mesh", {});
  constexpr int64_t kMost = 1'000'000;
  const auto size = required<int64_t>(json, "size");
  if (size < 1 || size > kMost) throw Error("a dimension of the mesh of " + std::to_string(size) + " ranks");
  return {required<std::string>(json, "dim"), size};
}
}  // namespace optrush
