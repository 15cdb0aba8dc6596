#include "launch/schedule/time_left.h"

#include <algorithm>

namespace optrush {
namespace {
int64_t all_steps(const RunSpec& spec) { return spec.train.warmup + spec.train.steps; }
}  // namespace

void TimeLeft::done(const RunSpec& spec, double seconds) { took_[kind(spec)] = {seconds, all_steps(spec)}; }

std::optional<double> TimeLeft::expected(const RunSpec& spec) const {
  // A drift run has no more steps than the base's others.
  if (const auto it = took_.find(kind(spec)); it != took_.end())
    return it->second.seconds * static_cast<double>(all_steps(spec)) / static_cast<double>(it->second.steps);
  double sum = 0, count = 0;
  for (const auto& [kind_done, took] : took_)
    if (kind_done.first == kind(spec).first) sum += took.seconds, ++count;
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
      whole = elapsed * static_cast<double>(all_steps(spec) - before) / static_cast<double>(steps);
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
  return {spec.purpose == Purpose::drift ? Purpose::measure : spec.purpose, spec.variant};
}
}  // namespace optrush
