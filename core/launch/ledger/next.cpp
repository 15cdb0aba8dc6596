#include "launch/ledger/next.h"

#include <algorithm>
#include <limits>

#include "launch/schedule/time_limit.h"

namespace optrush {
namespace {
/// Device memory of a context of a GPU.
constexpr double kContext = 2e9;

/// Memory of a process besides tensors: LibTorch, threads, helpers that compile.
constexpr double kOverhead = 0.5e9;
/// Share of the free memory that may be used.
constexpr double kShareOfMemory = 0.8;

/// The memory that runs may share, on a CPU. `free_bytes`: present free memory, for plans without the value
/// at their time.
double shared_memory(const Plans& plans, double free_bytes) {
  std::optional<double> free;
  for (const auto& plan : plans) {
    if (!plan || !plan->memory) continue;
    const auto& memory = plan->memory;
    if (memory->device != "cpu") return 0;
    if (memory->available) free = std::min(free.value_or(*memory->available), *memory->available);
  }
  return kShareOfMemory * free.value_or(free_bytes);
}

/// Bytes of a process of a job. A plan predicts the worker's step and not another program's, and a bound is
/// not a prediction.
std::optional<double> process_bytes(const Job& job, const std::optional<Plan>& plan,
                                    const MeasuredMemory& measured) {
  const auto memory = plan ? plan->memory : std::nullopt;
  if (!job.external && memory && memory->device == "cpu" && memory->bounded_by.empty()) return memory->peak;
  const auto found = measured.find(job.spec.variant);
  return found == measured.end() ? std::nullopt : std::optional(found->second);
}

bool launched(const RunRequest& request) { return request.remote_ranks != nullptr; }

/// The jobs of a round, and those that are interleaved.
Round with_jobs(Round round, const Ledger& ledger, const RunRequest& request, const Moment& now) {
  round.jobs = ledger.schedule().round(round.number, ledger.plans());
  std::erase_if(round.jobs, [&](const Job& job) {
    return !round.variants.empty() && std::ranges::count(round.variants, job.spec.variant) == 0;
  });
  const Experiment& experiment = ledger.experiment();
  std::vector<Job> fit = round.jobs;
  std::erase_if(fit, [&](const Job& job) { return ledger.alone().contains(job.spec.variant); });
  round.interleaved = chosen_for_interleaving(fit, ledger.plans(), ledger.measured_memory(), now.free_bytes,
                                              experiment.interleave, launched(request));
  // Without the whole number of steps, a result that is wanted would be another one.
  if (std::ranges::any_of(round.jobs, [&](const Job& job) { return is_wanted_whole(experiment, job.spec); }))
    round.paced = false;
  return round;
}

Round first_round(const Ledger& ledger, const RunRequest& request, const Moment& now) {
  const Experiment& experiment = ledger.experiment();
  // A shortened round would end with another validation.
  return with_jobs({.paced = experiment.until && experiment.base.validate.every == 0}, ledger, request, now);
}

/// The rounds are over. The base runs again if nothing was shortened.
Round end_of_rounds(Round round, const Ledger& ledger) {
  round.over = true;
  if (!round.limit.tight && !ledger.any_cut())
    round.jobs = ledger.schedule().drift(ledger.plans(), round.number);
  return round;
}

Round round_after(const Round& before, const Ledger& ledger, const RunRequest& request, const Moment& now) {
  const Experiment& experiment = ledger.experiment();
  Round round{.number = before.number + 1, .limit = before.limit};
  bool over = false;
  if (!ledger.schedule().open()) {
    over = round.number >= experiment.rounds;
  } else if (round.variants = ledger.begun(round.number); !round.variants.empty()) {
    // A round that an earlier start began is completed, with as many steps as its stored runs.
    round.paced = round.begun_before = true;
    round.steps = round.limit.steps.value_or(std::numeric_limits<int64_t>::max());
  } else if (experiment.until->race && ledger.came_to_end() &&
             round.number >= static_cast<int64_t>(kMinRounds)) {
    over = true;  // a race whose runs are all stored is not continued: its decisions stand
  } else {
    const auto can_be_cut = [&](int64_t variant) {
      return optrush::can_be_cut(
          experiment, ledger.schedule().measured(ledger.variant(variant), round.number), launched(request));
    };
    round = limited_round_after(before, analyze(ledger.stored()), now.seconds, can_be_cut);
    over = round.variants.empty();
  }
  return over ? end_of_rounds(std::move(round), ledger) : with_jobs(std::move(round), ledger, request, now);
}

/// The run after this one, if a worker may open the GPU for it while this one sets up: both are of this
/// machine, and the GPU has memory for the forecast of this one and another context.
std::optional<Job> prepared_beside(const Job& job, const Job& after, const Ledger& ledger) {
  const auto& plan = ledger.plan_of(job);
  const auto memory = plan ? plan->memory : std::nullopt;
  const bool fits =
      memory && memory->reserved && memory->available && *memory->reserved + kContext <= *memory->available;
  return !fits || job.external || after.external || after.spec.train.world_size > 1 ? std::nullopt
                                                                                    : std::optional(after);
}

/// Runs that are trained for their result, or in too few rounds for a claim, must be complete.
bool counts_when_cut(const Ledger& ledger) {
  const Experiment& experiment = ledger.experiment();
  return (experiment.until || experiment.rounds >= static_cast<int64_t>(kMinRounds)) &&
         std::ranges::none_of(ledger.variants(), [&](const Variant& variant) {
           return is_wanted_whole(experiment, variant.spec);
         });
}

Action in_round(const Round& round, const Ledger& ledger, const RunRequest& request) {
  std::vector<Job> missing = round.jobs;
  std::erase_if(missing, [&](const Job& job) { return ledger.done(job); });
  const bool probes = request.probe_s > 0 && round.any;
  if (missing.empty()) {
    if (probes && ledger.probed() != round.number + 1) return Probe{round.number + 1};
    return EndRound{};
  }
  if (probes && !ledger.probed()) return Probe{round.number};
  if (!round.interleaving_done) {
    // Steps are compared within one group, so a group with a missing run is repeated. Failures stay.
    std::vector<Job> group = round.interleaved;
    std::erase_if(group, [&](const Job& job) { return ledger.done(job) && !ledger.result(job).ok(); });
    const bool any = std::ranges::any_of(group, [&](const Job& job) { return !ledger.done(job); });
    if (any && group.size() > 1) return RunGroup{std::move(group), counts_when_cut(ledger)};
  }
  const Job& job = missing.front();
  RunOne one{.job = job};
  const Experiment& experiment = ledger.experiment();
  const bool may_be_cut = can_be_cut(experiment, job, launched(request));
  if (may_be_cut && missing.size() > 1) one.prepared = prepared_beside(job, missing[1], ledger);
  const bool races = experiment.stop_behind > 0 && knows_interleaving(job, launched(request));
  one.in_turns = races || one.prepared || (may_be_cut && round.paced);
  return one;
}
}  // namespace

Action next(const Ledger& ledger, const RunRequest& request, const Moment& now) {
  if (!ledger.inspected()) return Inspect{};
  if (!ledger.planned()) return MakePlans{};
  if (!ledger.round()) return BeginRound{first_round(ledger, request, now)};
  const Round& round = *ledger.round();
  if (!round.over && !round.ended) return in_round(round, ledger, request);
  const auto rounds = rounds_of(ledger.experiment());
  if ((round.over || round.number == 0) && !round.checked) return CheckGate{round.over || rounds == 1};
  if (!round.over) return BeginRound{round_after(round, ledger, request, now)};
  const auto drift = std::ranges::find_if(round.jobs, [&](const Job& job) { return !ledger.done(job); });
  if (drift == round.jobs.end()) return Stop{};
  return RunOne{*drift};
}

std::vector<Job> gate_jobs(const Ledger& ledger, const Row& row, const Plans& usable, bool last) {
  const bool may_be_checked = row.ok() || row.status == Status::broken;
  if (!may_be_checked || !usable.at(static_cast<size_t>(row.variant))) return {};
  const Variant& variant = ledger.variant(row.variant);
  auto jobs = ledger.schedule().gate(usable, variant, /*repeat=*/last && row.verdict.undecided);
  std::erase_if(jobs, [&](const Job& job) { return ledger.done(job); });
  return jobs;
}

std::vector<Job> chosen_for_interleaving(const std::vector<Job>& jobs, const Plans& plans,
                                         const MeasuredMemory& measured, double free_bytes,
                                         Interleave setting, bool launched) {
  std::vector<Job> chosen;
  double left = shared_memory(plans, free_bytes);
  const auto fits = [&](const Job& job) {
    const auto bytes = process_bytes(job, plans.at(static_cast<size_t>(job.spec.variant)), measured);
    if (!bytes) return false;
    const double needed = static_cast<double>(job.spec.train.world_size) * (*bytes + kOverhead);
    if (needed > left) return false;
    left -= needed;
    return true;
  };
  for (const auto& job : jobs) {
    if (setting == Interleave::off || !knows_interleaving(job, launched)) continue;
    // A run that saves states must be able to continue from them, which an interleaved run can't.
    if (setting == Interleave::automatic && job.spec.save.every > 0) continue;
    if (setting == Interleave::on || fits(job)) chosen.push_back(job);
  }
  return chosen.size() < 2 ? std::vector<Job>() : chosen;
}
}  // namespace optrush
