#include "results/noise_line.h"

#include <algorithm>

#include "spec/value.h"

namespace optrush {
namespace {
double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}
}  // namespace

Record<NoiseLine> record_of(const NoiseLine*) {
  using T = NoiseLine;
  return Record<T>::given("probe")
      .field("round", &T::round, "rounds before it", {.required = true, .min = 0})
      .field("low", &T::low, "ns", {.required = true, .min = 1e-9})
      .field("median", &T::median, "ns", {.required = true, .min = 1e-9})
      .field("high", &T::high, "ns", {.required = true, .min = 1e-9})
      .field("before", &T::before, "counters of the machine", {.type = "object"})
      .field("after", &T::after, "counters of the machine", {.type = "object"})
      .then([](const T& line) {
        for (const Json* counters : {&line.before, &line.after})
          for (const auto& [key, type] : kMachineSettings)
            if (const auto it = counters->find(key); it != counters->end() && !it->is_null())
              checked({.type = type}, *it, std::string("probe, '") + key + "'", {});
      });
}

NoiseLine noise_line(int64_t round, std::vector<double> pieces, Json before, Json after) {
  std::ranges::sort(pieces);
  return {
      round,           quantile(pieces, 0.1), quantile(pieces, 0.5), quantile(pieces, 0.9), std::move(before),
      std::move(after)};
}
}  // namespace optrush
