#include "launch/schedule/time_estimate.h"

#include <algorithm>
#include <map>

#include "analysis/numbers/statistics.h"

namespace optrush {
namespace {
/// A key of everything that determines how long a start and a step take.
std::string key_of(RunSpec spec, const std::optional<External>& external) {
  spec.purpose = Purpose::measure;
  spec.rung.clear();
  spec.round = spec.variant = spec.train.warmup = 0;
  spec.trace = false;
  spec.train.steps = 1;
  return identity_of({"", std::move(spec), external});
}

struct Took {
  std::vector<const RunResult*> runs;
  std::vector<double> validation;
};

/// The number of steps of a run like one that has ended: as many if its epochs may end it.
int64_t steps_of(const RunSpec& spec, const RunResult& ended) {
  return spec.train.epochs > 0 ? std::ssize(ended.steps) : spec.train.steps + spec.train.warmup;
}

/// The number of validations of a run.
double validations_of(const RunSpec& spec, int64_t steps) {
  return spec.purpose == Purpose::measure ? static_cast<double>(times_due(spec.validate.every, steps)) : 0;
}

std::optional<External> external_of(const StoredRun& run, const Stored& stored) {
  const bool own = run.spec.purpose == Purpose::measure || run.spec.purpose == Purpose::probe;
  return own ? stored.variants.at(static_cast<size_t>(run.spec.variant)).external : std::nullopt;
}
}  // namespace

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

TimeEstimate estimate_time(const std::vector<Job>& jobs, const Stored& stored) {
  std::map<std::string, Took> took;
  for (const auto& run : stored.runs) {
    if (run.result.status != Status::ok || !run.result.step_seconds) continue;
    Took& same = took[key_of(run.spec, external_of(run, stored))];
    same.runs.push_back(&run.result);
    for (const ValidationPoint& point : run.result.validation)
      same.validation.push_back(point.seconds.value_or(0));
  }
  TimeEstimate estimate{.all = jobs.size()};
  for (const auto& job : jobs) {
    const auto found = took.find(key_of(job.spec, job.external));
    if (found == took.end()) continue;
    std::vector<double> seconds;
    for (const RunResult* run : found->second.runs)
      seconds.push_back(run->start_seconds() +
                        *run->step_seconds * static_cast<double>(steps_of(job.spec, *run)));
    estimate.seconds += *median(seconds);
    estimate.seconds += median(found->second.validation).value_or(0) *
                        validations_of(job.spec, steps_of(job.spec, *found->second.runs.front()));
    ++estimate.known;
  }
  return estimate;
}
}  // namespace optrush
