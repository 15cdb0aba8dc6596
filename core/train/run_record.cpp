#include "train/run_record.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "optrush/error.h"

namespace optrush {
namespace {
constexpr std::array<const char*, kBuckets> kBucketNames = {"data",          "forward",   "backward",
                                                            "communication", "optimizer", "off"};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// What the timed steps hold and took, added up.
struct TimedSums {
  double steps = 0, seconds = 0, trained = 0, tokens = 0, positions = 0, pairs = 0;

  explicit TimedSums(const Json& all) {
    for (const auto& step : all) {
      if (!step["timed"].get<bool>()) continue;
      ++steps;
      seconds += step["seconds"].get<double>();
      trained += step["tokens"].get<double>();
      tokens += step["processed_tokens"].get<double>();
      positions += step["positions"].get<double>();
      pairs += step["attention_pairs"].get<double>();
    }
  }
};

/// Of the timed steps. Where all do the same work, the median step stands for them: it is not moved by a step
/// that the machine disturbed. Steps of other work each have no such one: all tokens over all seconds count.
Json summarize(const Json& steps, bool alike) {
  std::vector<double> seconds;
  std::map<std::string, std::vector<double>> phases;
  for (const auto& step : steps) {
    if (!step["timed"].get<bool>()) continue;
    seconds.push_back(step["seconds"]);
    for (const auto& [name, value] : step["phases"].items())
      if (value.is_number()) phases[name].push_back(value);
  }
  const TimedSums sums(steps);
  const double middle = median(seconds), of_a_step = alike ? middle : sums.seconds / sums.steps;
  Json summary = {{"tokens_per_second", sums.tokens / sums.steps / of_a_step},
                  {"trained_tokens_per_second", sums.trained / sums.steps / of_a_step},
                  {"tokens_per_step",
                   {{"processed", sums.tokens / sums.steps},
                    {"trained", sums.trained / sums.steps},
                    {"padding", 1 - sums.tokens / sums.positions}}},
                  {"step_seconds", middle}};
  for (size_t i = 0; i < static_cast<size_t>(Bucket::off); ++i) {
    const auto found = phases.find(kBucketNames[i]);
    summary["phases"][kBucketNames[i]] = found == phases.end() ? Json() : Json(median(found->second));
  }
  return summary;
}

void tell_as(const std::string& event, Json line, const MetricsSink& sink) {
  line["event"] = event;
  sink(line);
}
}  // namespace

Json phases_of(const StepTime& time) {
  Json phases;
  for (size_t i = 0; i < static_cast<size_t>(Bucket::off); ++i)
    phases[kBucketNames[i]] = time.seen[i] ? Json(time.seconds[i]) : Json();
  return phases;
}

void RunRecord::add_step(Json step, double executed) {
  const auto at = " at step " + std::to_string(step["step"].get<int64_t>());
  if (step["loss"].is_number() && !std::isfinite(step["loss"].get<double>()))
    throw Error("the loss is not finite" + at,
                "lower the learning rate, or check the precision of this rung");
  if (step["grad_norm"].is_number()) {  // else skipped: a loss scale that was too large
    const double norm = step["grad_norm"];
    if (norm == 0)
      throw Error("the gradient norm is zero" + at + ": no parameter is trained",
                  "if the loss (" + step["loss"].dump() +
                      ") has diverged, lower the learning rate; otherwise check the frozen parameters");
    if (!std::isfinite(norm))
      throw Error("the gradient norm is not finite" + at, "check the precision of this rung");
  }
  tell_as("step", step, sink_);
  steps_.push_back(std::move(step));
  executed_.push_back(executed);
}

void RunRecord::add_validation(Json point) {
  tell_as("validation", point, sink_);
  validation_.push_back(std::move(point));
}

void RunRecord::add_saved(Json saved) {
  tell_as("saved", saved, sink_);
  saved_.push_back(std::move(saved));
}

Json RunRecord::to_json() const {
  return {{"steps", steps_}, {"executed_flops", executed_}, {"validation", validation_}, {"saved", saved_}};
}

void RunRecord::take_up(const Json& before) {
  size_t validation = 0, saved = 0;
  const auto after = [](const Json& list, size_t next, const Json& step) {
    return next < list.size() && list[next].at("step") == step.at("step").get<int64_t>() + 1;
  };
  if (!before.contains("executed_flops"))
    throw Error("the run cannot continue from its saved state: an earlier version of optrush saved it",
                "remove the state, then rerun the run with --resume --retry");
  const Json& executed = before.at("executed_flops");
  for (const Json& step : before.at("steps")) {
    add_step(step, executed.at(executed_.size()).get<double>());
    if (after(before.at("validation"), validation, step)) add_validation(before["validation"][validation++]);
    if (after(before.at("saved"), saved, step)) add_saved(before["saved"][saved++]);
  }
  sink_({{"event", "continued"}, {"steps", steps_.size()}});
}

void RunRecord::add_to(Json& result) const {
  result["steps"] = steps_;
  result.update(summarize(steps_, all_alike()));
  if (!validation_.empty()) result["validation"] = validation_;
  if (!saved_.empty()) result["saved"] = saved_;
}

bool RunRecord::all_alike() const {
  double first = -1;
  for (size_t i = 0; i < executed_.size(); ++i) {
    if (!steps_[i]["timed"].get<bool>()) continue;
    if (first < 0) first = executed_[i];
    if (std::abs(executed_[i] - first) > 1e-9 * first) return false;  // of several parts, the last bit may be
  }
  return true;
}

Json RunRecord::flops_per_token(const ModelFlops& flops) const {
  double executed = 0;
  for (size_t i = 0; i < executed_.size(); ++i)
    if (steps_[i]["timed"].get<bool>()) executed += executed_[i];
  const TimedSums sums(steps_);
  return {{"mfu", flops.all(sums.tokens, sums.pairs) / sums.tokens},
          {"mfu_causal", flops.causal(sums.tokens, sums.pairs) / sums.tokens},
          {"hfu", executed / sums.tokens}};
}
}  // namespace optrush
