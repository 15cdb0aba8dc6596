#include "search/stage_evaluator.h"

#include <algorithm>
#include <limits>

#include "analysis/numbers/format.h"
#include "analysis/numbers/verdict.h"
#include "base/text.h"
#include "experiment/stack.h"
#include "launch/progress.h"
#include "launch/schedule/planner.h"
#include "launch/schedule/time_limit.h"
#include "optrush/error.h"
#include "report/report.h"

namespace optrush {
namespace {
/// Shares of the remaining time for stages. The first stage measures everything, and two more should be
/// possible.
constexpr double kShareOfFirstStage = 1.0 / 3, kShareOfStage = 2.0 / 3;
/// Share of the total time for the final ladder.
constexpr double kShareOfLadder = 0.2;
constexpr double kShortestStage = 1;  // seconds

Trial trial_of(const Row& row) {
  if (!row.ok()) return {.reason = std::string(to_string(row.status)) + ": " + row.reason};
  if (!row.previous.speed) return {.reason = "it has no common round with the reference"};
  const Verdict verdict = verdict_of(*row.previous.speed);
  return {.ok = true,
          .result = ratio_text(*row.previous.speed) +
                    (row.previous.speed->claim() ? ", " + std::string(to_string(verdict.outcome)) : ""),
          .speed = row.previous.speed->value,
          .faster = verdict.outcome == Outcome::faster,
          .too_short = verdict.outcome == Outcome::too_few,
          .rounds = row.previous.speed->rounds};
}

/// Seconds of three rounds of the reference and the fastest stack, with the fewest steps that a shortened run
/// makes.
double seconds_of_fewest(const Analysis& a) {
  const auto costs = run_costs(a);
  double reference = 0, least = std::numeric_limits<double>::infinity();
  for (const auto& [variant, cost] : costs) {
    const double seconds = cost.seconds(kFewestSteps);
    variant == 0 ? reference = seconds : least = std::min(least, seconds);
  }
  return costs.size() < 2 ? 0 : static_cast<double>(kMinRounds) * (reference + least);
}
}  // namespace

std::vector<size_t> Stacks::choices() const {
  std::vector<size_t> sizes;
  for (const auto& axis : request_.axes) sizes.push_back(axis.size());
  return sizes;
}

std::string Stacks::name(const Picks& picks) const {
  if (picks.empty()) return "base";
  return join(texts_of(picks, [&](const Pick& pick) { return name(pick); }), " + ");
}

std::string Stacks::change(const Picks& from, const Picks& to) const {
  std::vector<std::string> parts;
  for (const Pick& pick : to)
    if (std::ranges::count(from, pick) == 0) parts.push_back("+ " + name(pick));
  for (const Pick& pick : from)
    if (std::ranges::count(to, pick) == 0) parts.push_back("- " + name(pick));
  return join(parts, ", ");
}

Variant Stacks::variant(const Picks& picks) const {
  if (picks.empty()) return {.name = name(picks), .spec = experiment_.base, .external = experiment_.program};
  // A grid with one choice per axis is one stack whose rungs may replace plugins of each other.
  Experiment one = experiment_;
  Part grid{.arrangement = Arrangement::grid};
  for (const Pick& pick : picks) grid.axes.push_back({rung(pick)});
  one.parts = {grid};
  const Variant stack = expand(one).back();
  return {.name = name(picks), .spec = stack.spec, .external = stack.external};
}

StageEvaluator::StageEvaluator(const Experiment& experiment, const SearchRequest& request,
                               const Stacks& stacks, RunRequest run, std::filesystem::path folder,
                               Progress& progress)
    : experiment_(experiment),
      request_(request),
      stacks_(stacks),
      run_(std::move(run)),
      folder_(std::move(folder)),
      progress_(progress),
      catalogue_(Catalogue::find(experiment.base.plugin_path)) {
  run_.only.clear();
}

double StageEvaluator::seconds_left() const {
  return experiment_.until->at_most_s - std::chrono::duration<double>(Clock::now() - start_).count();
}

/// The time left for stages, without the final ladder's share.
double StageEvaluator::seconds_for_stages() const {
  return seconds_left() - kShareOfLadder * experiment_.until->at_most_s;
}

bool StageEvaluator::goes_on() { return seconds_for_stages() > fewest_s_; }

Forecast StageEvaluator::forecast(const Picks& picks) try {
  progress_.stage("planning " + stacks_.name(picks));
  const Variant variant = stacks_.variant(picks);
  check_stacks({variant}, catalogue_);
  Interrupts interrupts;
  const auto planned = plan_variant(
      variant, {.workers = *run_.workers, .limits = {.timeout_s = run_.plan_timeout_s}}, interrupts);
  if (!planned) throw StageInterrupted{folder_, interrupts.signal()};
  if (planned->lacks_memory) return {Forecast::End::too_large, planned->failure.reason, 0};
  if (!planned->plan) return {Forecast::End::refused, planned->failure.reason, 0};
  const auto& memory = planned->plan->memory;
  if (!memory) return {Forecast::End::fits, "", 0};
  if (request_.memory_bytes && memory->least > *request_.memory_bytes)
    return {
        Forecast::End::too_large,
        "a step needs " + bytes(memory->least) + ", but the memory limit is " + bytes(*request_.memory_bytes),
        memory->least};
  return {Forecast::End::fits, "", memory->bounded_by.empty() ? memory->peak : 0};
} catch (const Error& e) {
  return {Forecast::End::refused, e.message(), 0};
}

Experiment StageEvaluator::stage(const Picks& reference, const std::vector<Picks>& stacks) const {
  Experiment stage = experiment_;
  stage.name = folder_.filename();
  stage.label = std::to_string(stages_);
  stage.question = "What is better than " + stacks_.name(reference) + "?";
  const Variant below = stacks_.variant(reference);
  stage.base = below.spec;
  stage.program = below.external;
  stage.base_name = stacks_.name(reference);
  stage.base.validate.every = stage.base.save.every = 0;  // a stage measures only speed
  stage.base.train.overfit = 0;
  stage.until->race = true;
  // If planning took all the time, the stage makes one round. A stage may take more than its share until it
  // has claims, because a stage without claims is useless.
  stage.until->at_most_s = std::max(kShortestStage, seconds_for_stages());
  stage.until->enough_s = (stages_ == 1 ? kShareOfFirstStage : kShareOfStage) * stage.until->at_most_s;
  Part ladder;
  for (const Picks& stack : stacks) {
    Rung rung = rung_between(below, stacks_.variant(stack), stacks_.change(reference, stack));
    rung.over = "base";
    ladder.rungs.push_back(std::move(rung));
  }
  stage.parts = {ladder};
  return stage;
}

/// `again`: continues the stage.
Analysis StageEvaluator::run(const Experiment& stage, bool again) {
  RunRequest request = run_;
  request.reports = folder_.parent_path();
  request.resume = request.resume || again;
  request.machine = machine_;
  request.began = Clock::now();
  const RunOutcome outcome = run_experiment(Expanded(stage), request, progress_);
  WrittenReport written = write_report(outcome.folder);
  if (outcome.signal != 0) throw StageInterrupted{outcome.folder, outcome.signal};
  const Json& context = written.analysis.context;
  if (machine_.is_null() && !context.contains("doctor")) machine_ = context;
  return std::move(written.analysis);
}

std::vector<Trial> StageEvaluator::measure(const Picks& reference, const std::vector<Picks>& stacks) {
  ++stages_;
  const Experiment stage = this->stage(reference, stacks);
  progress_.note("search, stage " + stage.label + ": " + counted(stacks.size(), "stack") + " beside " +
                 stacks_.name(reference));
  Analysis analysis = run(stage, /*again=*/false);
  const auto claims = [](const Row& row) {
    return row.ok() && row.previous.speed && row.previous.speed->rounds >= kMinRounds;
  };
  // Without a claim in the first stage there will be no final ladder, so the stage may use its time.
  if (stages_ == 1 && analysis.rows.front().ok() && std::ranges::none_of(analysis.rows, claims) &&
      seconds_left() > kShortestStage) {
    Experiment longer = stage;
    longer.until->at_most_s = seconds_left();
    analysis = run(longer, /*again=*/true);
  }
  fewest_s_ = seconds_of_fewest(analysis);
  to_decide_s_ = seconds_to_claims(analysis);
  std::vector<Trial> trials;
  const Row& beside = analysis.rows.front();
  const Trial failed{.reason = "the stack that this stage starts from ended as '" +
                               std::string(to_string(beside.status)) + "': " + beside.reason,
                     .reference_failed = true};
  for (size_t i = 0; i < stacks.size(); ++i)
    trials.push_back(beside.ok() ? trial_of(analysis.rows.at(i + 1)) : failed);
  return trials;
}
}  // namespace optrush
