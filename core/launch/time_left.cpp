#include "launch/time_left.h"

#include <algorithm>

namespace optrush {
void TimeLeft::done(const RunSpec& spec, double seconds) { seconds_[kind(spec)] = seconds; }

std::optional<double> TimeLeft::expected(const RunSpec& spec) const {
  if (const auto it = seconds_.find(kind(spec)); it != seconds_.end()) return it->second;
  double sum = 0, count = 0;
  for (const auto& [kind_done, seconds] : seconds_)
    if (kind_done.first == kind(spec).first) sum += seconds, ++count;
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::optional<double> TimeLeft::remaining(const RunSpec& present, double elapsed, int64_t steps,
                                          const std::vector<Job>& later) const {
  TimeLeft with_present = *this;
  std::optional<double> whole = expected(present);
  if (!whole && steps > 0)
    whole = elapsed * static_cast<double>(present.train.warmup + present.train.steps) /
            static_cast<double>(steps);
  if (!whole) return std::nullopt;
  with_present.done(present, std::max(*whole, elapsed));
  double left = std::max(0.0, *whole - elapsed);
  for (const auto& job : later) left += with_present.expected(job.spec).value_or(*whole);
  return left;
}

TimeLeft::Kind TimeLeft::kind(const RunSpec& spec) {
  return {spec.purpose == "drift" ? "measure" : spec.purpose, spec.variant};
}
}  // namespace optrush
