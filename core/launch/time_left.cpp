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

std::optional<double> TimeLeft::remaining(const std::vector<UnderWay>& under_way,
                                          const std::vector<Job>& later) const {
  TimeLeft with_these = *this;
  double left = 0;
  for (const auto& [spec, elapsed, steps, before] : under_way) {
    std::optional<double> whole = with_these.expected(spec);
    if (!whole && steps > 0)
      whole = elapsed * static_cast<double>(spec.train.warmup + spec.train.steps - before) /
              static_cast<double>(steps);
    if (!whole) return std::nullopt;
    with_these.done(spec, std::max(*whole, elapsed));
    left += std::max(0.0, *whole - elapsed);
  }
  for (const auto& job : later) {
    const auto whole = with_these.expected(job.spec);
    left += whole ? *whole : with_these.expected(under_way.front().spec).value_or(0);
  }
  return left;
}

TimeLeft::Kind TimeLeft::kind(const RunSpec& spec) {
  return {spec.purpose == "drift" ? "measure" : spec.purpose, spec.variant};
}
}  // namespace optrush
