#include "launch/schedule/estimate.h"

#include <map>

#include "analysis/numbers/statistics.h"

namespace optrush {
namespace {
/// A key of everything that determines how long a start and a step take.
std::string work_of(RunSpec spec, const std::optional<External>& external) {
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

TimeEstimate estimate_time(const std::vector<Job>& jobs, const Stored& stored) {
  std::map<std::string, Took> took;
  for (const auto& run : stored.runs) {
    if (run.result.status != Status::ok || !run.result.step_seconds) continue;
    Took& same = took[work_of(run.spec, external_of(run, stored))];
    same.runs.push_back(&run.result);
    for (const ValidationPoint& point : run.result.validation)
      same.validation.push_back(point.seconds.value_or(0));
  }
  TimeEstimate estimate{.all = jobs.size()};
  for (const auto& job : jobs) {
    const auto found = took.find(work_of(job.spec, job.external));
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
