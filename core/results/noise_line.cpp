#include "results/noise_line.h"

#include <algorithm>

#include "spec/fields.h"
#include "spec/value.h"

namespace optrush {
namespace {
double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

const Fields<NoiseLine>& noise_fields() {
  using T = NoiseLine;
  const auto counters = [](Json T::*member, const char* name) {
    const OptionSchema schema = {
        .name = name, .type = "object", .doc = "counters of the machine", .fallback = Json::object()};
    return Fields<T>::Field{
        schema,
        [=](T& line, const Json& json, const std::string& subject, const std::string& where) {
          line.*member = checked(schema, json, subject, where);
          for (const auto& [key, type] : kMachineSettings)
            if (const auto it = json.find(key); it != json.end() && !it->is_null())
              checked({.type = type}, *it, subject + "." + key, where);
        },
        [=](const T& line) { return line.*member; }};
  };
  static const auto fields = Fields<T>()
                                 .required(&T::round, {.name = "round", .doc = "rounds before it", .min = 0})
                                 .required(&T::low, {.name = "low", .doc = "ns", .min = 1e-9})
                                 .required(&T::median, {.name = "median", .doc = "ns", .min = 1e-9})
                                 .required(&T::high, {.name = "high", .doc = "ns", .min = 1e-9})
                                 .custom(counters(&T::before, "before"))
                                 .custom(counters(&T::after, "after"));
  return fields;
}
}  // namespace

NoiseLine noise_line(int64_t round, std::vector<double> pieces, Json before, Json after) {
  std::ranges::sort(pieces);
  return {
      round,           quantile(pieces, 0.1), quantile(pieces, 0.5), quantile(pieces, 0.9), std::move(before),
      std::move(after)};
}

Json to_json(const NoiseLine& line) { return noise_fields().write(line); }
NoiseLine noise_line_from_json(const Json& json, const std::string& where) {
  return noise_fields().read(json, "probe", where);
}
}  // namespace optrush
