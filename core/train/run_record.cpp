#include "train/run_record.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace {
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// Sums over the timed steps.
struct TimedSums {
  double steps = 0, seconds = 0, trained = 0, tokens = 0, pairs = 0;

  explicit TimedSums(const std::vector<StepResult>& all) {
    for (const StepResult& step : all) {
      if (!step.timed) continue;
      ++steps;
      seconds += step.seconds;
      trained += static_cast<double>(step.trained);
      tokens += static_cast<double>(step.tokens);
      pairs += step.attention_pairs.value_or(0);
    }
  }
};

/// Speed over the timed steps. If all steps do the same work, it is computed from the median step, which a
/// single disturbed step does not move. Otherwise it is all tokens divided by all seconds.
void summarize(const std::vector<StepResult>& steps, bool alike, RunResult& result) {
  std::vector<double> seconds;
  std::map<std::string, std::vector<double>> phases;
  for (const StepResult& step : steps) {
    if (!step.timed) continue;
    seconds.push_back(step.seconds);
    for (const auto& [name, value] : step.phases)
      if (value) phases[name].push_back(*value);
  }
  const TimedSums sums(steps);
  const double middle = median(seconds), of_a_step = alike ? middle : sums.seconds / sums.steps;
  result.tokens_per_second = sums.tokens / sums.steps / of_a_step;
  result.trained_tokens_per_second = sums.trained / sums.steps / of_a_step;
  result.tokens_per_step = {.processed = sums.tokens / sums.steps,
                            .trained = sums.trained / sums.steps,
                            .padding = result.padding()};
  result.step_seconds = middle;
  for (size_t i = 0; i < static_cast<size_t>(Bucket::off); ++i) {
    const std::string name = name_of(static_cast<Bucket>(i));
    const auto found = phases.find(name);
    result.phases.emplace_back(name,
                               found == phases.end() ? std::nullopt : std::optional(median(found->second)));
  }
}

}  // namespace

Phases phases_of(const StepTime& time) {
  Phases phases;
  for (size_t i = 0; i < static_cast<size_t>(Bucket::off); ++i)
    phases.emplace_back(name_of(static_cast<Bucket>(i)),
                        time.seen[i] ? std::optional(time.seconds[i]) : std::nullopt);
  return phases;
}

template <class T>
void RunRecord::emit(const std::string& event, const T& what) const {
  Json line = record::written(what);
  line["event"] = event;
  if (resuming_) line["earlier"] = true;
  sink_(line);
}

void RunRecord::add_step(StepResult step, double executed) {
  emit("step", step);
  steps_.push_back(std::move(step));
  executed_.push_back(executed);
}

void RunRecord::add_validation(ValidationPoint point) {
  emit("validation", point);
  validations_.push_back(point);
}

void RunRecord::add_saved(SavedPoint saved) {
  emit("saved", saved);
  saved_.push_back(saved);
}

Json RunRecord::to_json(const SavedPoint& saved) const {
  auto all = saved_;
  all.push_back(saved);
  return {{"steps", record::written(steps_)},
          {"executed_flops", executed_},
          {"validation", record::written(validations_)},
          {"saved", record::written(all)}};
}

void RunRecord::resume(const Json& before) {
  if (!before.contains("executed_flops"))
    throw Error(ErrorCode::invalid_file,
                "the run cannot continue from its saved state: an earlier version of optrush saved it",
                "remove the state, then rerun the run with --resume --retry");
  const auto steps = record::taken<std::vector<StepResult>>(before.at("steps"), "steps");
  const auto executed = record::taken<std::vector<double>>(before.at("executed_flops"), "executed_flops");
  const auto validations = record::taken<std::vector<ValidationPoint>>(before.at("validation"), "validation");
  const auto saved = record::taken<std::vector<SavedPoint>>(before.at("saved"), "saved");
  auto validation = validations.begin();
  auto state = saved.begin();
  resuming_ = true;
  for (const StepResult& step : steps) {
    add_step(step, executed.at(executed_.size()));
    if (validation != validations.end() && validation->step == step.step + 1) add_validation(*validation++);
    if (state != saved.end() && state->step == step.step + 1) add_saved(*state++);
  }
  resuming_ = false;
  sink_({{"event", "continued"}, {"steps", steps_.size()}});
}

void RunRecord::add_to(RunResult& result) const {
  result.steps = steps_;
  summarize(steps_, all_alike(), result);
  result.validation = validations_;
  result.saved = saved_;
}

void RunRecord::note_skipped_updates(const TrainSpec& train, RunLog& log) const {
  int64_t all = 0, rising = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!std::isnan(steps_[i].grad_norm)) continue;
    ++all;
    rising += steps_[i].step < train.lr_warmup ? 1 : 0;
  }
  if (all == 0) return;
  log.note(counted(all, "update") + " of " + std::to_string(steps_.size()) + (all == 1 ? " was" : " were") +
           " skipped, because gradients overflowed");
  if (2 * rising >= train.lr_warmup && rising > 0)
    log.warn(
        std::to_string(rising) + " of the " + counted(train.lr_warmup, "step") +
        " in which the learning rate rises had no update, because gradients overflowed: a schedule counts "
        "steps, also skipped ones. Lower the initial loss scale, or raise lr_warmup");
}

bool RunRecord::all_alike() const {
  double first = -1;
  for (size_t i = 0; i < executed_.size(); ++i) {
    if (!steps_[i].timed) continue;
    if (first < 0) first = executed_[i];
    // sums of several parts may differ in the last bit
    if (std::abs(executed_[i] - first) > 1e-9 * first) return false;
  }
  return true;
}

void RunRecord::add_flops(const ModelFlops& flops, RunResult& result) const {
  double executed = 0;
  for (size_t i = 0; i < executed_.size(); ++i)
    if (steps_[i].timed) executed += executed_[i];
  const TimedSums sums(steps_);
  result.mfu_flops = flops.all(sums.tokens, sums.pairs) / sums.tokens;
  result.mfu_causal_flops = flops.causal(sums.tokens, sums.pairs) / sums.tokens;
  result.hfu_flops = executed / sums.tokens;
}
}  // namespace optrush
