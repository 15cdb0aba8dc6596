#include "launch/schedule/time_left.h"

#include <algorithm>

namespace optrush {
Work work_of(const RunSpec& spec) {
  return {spec.purpose == Purpose::drift ? Purpose::measure : spec.purpose, spec.variant,
          spec.train.warmup + spec.train.steps};
}

void TimeLeft::done(const Work& work, double seconds) {
  took_[{work.purpose, work.variant}] = {seconds, work.steps};
}

std::optional<double> TimeLeft::mean_of(Purpose purpose) const {
  double sum = 0, count = 0;
  for (const auto& [kind, took] : took_)
    if (kind.first == purpose) sum += took.seconds, ++count;
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::optional<double> TimeLeft::expected(const Work& work) const {
  const auto it = took_.find({work.purpose, work.variant});
  if (it == took_.end()) return mean_of(work.purpose);
  // A drift run has no more steps than other runs of the base.
  return it->second.seconds * static_cast<double>(work.steps) / static_cast<double>(it->second.steps);
}

std::optional<double> TimeLeft::remaining(const std::vector<UnderWay>& under_way,
                                          const std::map<Work, int64_t>& later) const {
  TimeLeft with_these = *this;
  double left = 0;
  for (const auto& [spec, elapsed, steps, before, length] : under_way) {
    const Work work = work_of(spec);
    std::optional<double> whole = with_these.expected(work);
    if (!whole && steps > 0)
      whole = elapsed * static_cast<double>((length > 0 ? length : work.steps) - before) /
              static_cast<double>(steps);
    if (!whole) return std::nullopt;
    with_these.done(work, std::max(*whole, elapsed));
    left += std::max(0.0, *whole - elapsed);
  }
  if (later.empty()) return left;
  const double present = with_these.expected(work_of(under_way.front().spec)).value_or(0);
  std::map<Purpose, double> means;  // for kinds without a finished run, computed once: there may be thousands
  for (const auto& [work, count] : later) {
    const bool known = with_these.took_.contains({work.purpose, work.variant});
    if (!known && !means.contains(work.purpose))
      means[work.purpose] = with_these.mean_of(work.purpose).value_or(present);
    left += static_cast<double>(count) * (known ? *with_these.expected(work) : means.at(work.purpose));
  }
  return left;
}
}  // namespace optrush
