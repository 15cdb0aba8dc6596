#include "launch/estimate.h"

#include <map>

#include "launch/journal.h"
#include "report/statistics.h"

namespace optrush {
namespace {
/// Of everything that decides how long a start and a step take.
std::string work_of(RunSpec spec, const std::optional<External>& external) {
  spec.purpose = "measure";
  spec.rung.clear();
  spec.round = spec.variant = spec.train.warmup = 0;
  spec.train.steps = 1;
  return identity_of({"", std::move(spec), external});
}

struct Took {
  std::vector<double> start, step;
};

std::optional<External> external_of(const StoredRun& run, const Stored& stored) {
  const bool own = run.spec.purpose == "measure" || run.spec.purpose == "probe";
  return own ? stored.variants.at(static_cast<size_t>(run.spec.variant)).external : std::nullopt;
}
}  // namespace

TimeEstimate estimate_time(const std::vector<Job>& jobs, const Stored& stored) {
  std::map<std::string, Took> took;
  for (const auto& run : stored.runs) {
    if (run.result.status != Status::ok || !run.result.step_seconds) continue;
    Took& same = took[work_of(run.spec, external_of(run, stored))];
    same.start.push_back(run.result.setup_seconds + run.result.compile_seconds);
    same.step.push_back(*run.result.step_seconds);
  }
  TimeEstimate estimate{.all = jobs.size()};
  for (const auto& job : jobs) {
    const auto found = took.find(work_of(job.spec, job.external));
    if (found == took.end()) continue;
    const auto steps = static_cast<double>(job.spec.train.steps + job.spec.train.warmup);
    estimate.seconds += *median(found->second.start) + *median(found->second.step) * steps;
    ++estimate.known;
  }
  return estimate;
}
}  // namespace optrush
