#include "launch/schedule/schedule.h"

#include <fnmatch.h>

#include <algorithm>
#include <iterator>

#include "analysis/numbers/statistics.h"
#include "base/files.h"
#include "base/suggest.h"
#include "optrush/error.h"
#include "spec/run_identity.h"

namespace optrush {
namespace {
/// The rung with this name, otherwise those that match the pattern.
std::vector<std::string> chosen_by(const std::string& pattern, const std::vector<std::string>& names) {
  if (std::ranges::find(names, pattern) != names.end()) return {pattern};
  std::vector<std::string> chosen;
  std::ranges::copy_if(names, std::back_inserter(chosen), [&](const std::string& name) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
  return chosen;
}

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

std::optional<int64_t> rounds_of(const Experiment& experiment) {
  return experiment.until ? std::nullopt : std::optional(experiment.rounds);
}

RunSpec in_round(RunSpec spec, int64_t round, const std::vector<int64_t>& seeds) {
  spec.round = round;
  if (!seeds.empty()) spec.train.seed = static_cast<uint64_t>(seeds.at(static_cast<size_t>(round)));
  return spec;
}

Schedule::Schedule(const std::vector<Variant>& variants, const Experiment& experiment,
                   const std::vector<std::string>& only)
    : variants_(variants),
      rounds_(rounds_of(experiment)),
      trace_(experiment.trace),
      interleaved_(experiment.interleave == Interleave::on),
      seeds_(experiment.seeds) {
  std::vector<std::string> names;
  for (const auto& variant : variants_) names.push_back(variant.name);
  for (const auto& pattern : only) {
    const auto chosen = chosen_by(pattern, names);
    if (chosen.empty())
      throw UsageError(ErrorCode::unknown_name, "--only: the experiment has no rung '" + pattern + "'",
                       did_you_mean(pattern, names));
    for (const auto& name : chosen)
      if (std::ranges::find(only_, name) == only_.end()) only_.push_back(name);
  }
}

bool Schedule::wanted(const Variant& variant) const {
  return variant.runs_of() == 0 || only_.empty() || std::ranges::any_of(variants_, [&](const Variant& other) {
           return other.runs_of() == variant.runs_of() && std::ranges::find(only_, other.name) != only_.end();
         });
}

std::vector<Job> Schedule::round(int64_t round, const Plans& plans) const {
  std::vector<Job> jobs;
  for (const auto& variant : variants_)
    if (variant.has_own_runs() && wanted(variant) && plans.at(static_cast<size_t>(variant.index)))
      jobs.push_back(measured(variant, round));
  return jobs;
}

std::vector<Job> Schedule::gate(const Plans& plans, const Variant& variant, bool repeat) const {
  std::vector<Job> jobs;
  if (!variant.has_own_runs() || !wanted(variant)) return jobs;
  const GateCheck check = plan_check(variants_, plans, variant.index);
  for (const auto& extra : {check.reference, check.subject})
    if (extra) jobs.push_back(job(*extra, extra->purpose, 0));
  if (repeat && check.repeat) jobs.push_back(job(*check.repeat, Purpose::repeat, check.repeat->round));
  return jobs;
}

RunSpec drift_of(RunSpec base) {
  constexpr int64_t kSteps = 50;  // enough to show a speed
  base.train.steps = std::min(base.train.steps, kSteps);
  return base;
}

std::vector<Job> Schedule::drift(const Plans& plans, int64_t rounds) const {
  if (!plans.front() || variants_.front().spec.save.every > 0) return {};
  const auto needs_it = [&](const Job& job) {
    return job.spec.variant > 0 && !(interleaved_ && knows_interleaving(job, /*launched=*/true));
  };
  if (std::ranges::none_of(round(0, plans), needs_it)) return {};
  return {job(drift_of(variants_.front().spec), Purpose::drift, rounds)};
}

std::vector<Job> Schedule::all(const Plans& plans) const {
  auto jobs = round(0, plans);
  const auto append = [&](std::vector<Job> more) { std::ranges::move(more, std::back_inserter(jobs)); };
  for (const auto& variant : variants_)
    if (plans.at(static_cast<size_t>(variant.index))) append(gate(plans, variant));
  for (int64_t i = 1; i < rounds_.value_or(1); ++i) append(round(i, plans));
  append(drift(plans, rounds_.value_or(1)));
  return jobs;
}

Job Schedule::measured(const Variant& variant, int64_t round) const {
  return job(in_round(variant.spec, round, seeds_), Purpose::measure, round);
}

std::string Schedule::describe(const RunSpec& spec) const {
  if (spec.purpose == Purpose::measure)
    return "round " + std::to_string(spec.round + 1) + (rounds_ ? "/" + std::to_string(*rounds_) : "") +
           (seeds_.empty() ? "" : ", seed " + std::to_string(spec.train.seed));
  const std::string purpose(to_string(spec.purpose));
  return spec.purpose == Purpose::drift ? purpose : "gate " + purpose;
}

Job Schedule::job(RunSpec spec, Purpose purpose, int64_t round) const {
  spec.purpose = purpose;
  spec.round = round;
  const auto& variant = variants_.at(static_cast<size_t>(spec.variant));
  spec.trace = trace_ && purpose == Purpose::measure && round == 0;
  const bool by_program = is_made_by_program(variant, spec);
  return {run_id(variant, spec), std::move(spec), by_program ? variant.external : std::nullopt};
}

std::string identity_of(const Job& job) {
  const std::string spec = spec_sha256(job.spec);
  return job.external ? sha256(spec + record::written(*job.external).dump()) : spec;
}

bool knows_interleaving(const Job& job, bool launched) {
  if (job.external) return job.external->interleave;
  return job.spec.train.world_size == 1 || !launched;
}

bool saves_state(const Job& job) {
  const RunSpec& spec = job.spec;
  return spec.save.every > 0 && spec.purpose == Purpose::measure && spec.round == 0 && !job.external;
}

bool is_wanted_whole(const Experiment& experiment, const RunSpec& spec) {
  return spec.save.every > 0 || spec.train.overfit > 0 || experiment.target_loss > 0;
}

bool can_be_cut(const Experiment& experiment, const Job& job, bool launched) {
  return knows_interleaving(job, launched) && !is_wanted_whole(experiment, job.spec);
}

void note_peak(const Job& job, const RunResult& result, MeasuredMemory& measured) {
  if (job.spec.purpose != Purpose::measure || !result.ok()) return;
  if (!result.memory.process || result.on_gpu) return;
  double& peak = measured[job.spec.variant];
  peak = std::max(peak, *result.memory.process);
}

Work work_of(const RunSpec& spec) {
  return {spec.purpose == Purpose::drift ? Purpose::measure : spec.purpose, spec.variant,
          spec.train.warmup + spec.train.steps};
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
