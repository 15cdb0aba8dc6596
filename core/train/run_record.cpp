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

/// Medians over the timed steps. Steps of documents differ in their tokens and hardly in their time: the
/// speed is that of their mean.
Json summarize(const Json& steps) {
  std::vector<double> seconds;
  std::map<std::string, std::vector<double>> phases;
  double tokens = 0;
  for (const auto& step : steps) {
    if (!step["timed"].get<bool>()) continue;
    seconds.push_back(step["seconds"]);
    tokens += step["tokens"].get<double>();
    for (const auto& [name, value] : step["phases"].items())
      if (value.is_number()) phases[name].push_back(value);
  }
  tokens /= static_cast<double>(seconds.size());
  Json summary = {{"tokens_per_second", tokens / median(seconds)}, {"step_seconds", median(seconds)}};
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

void RunRecord::add_step(Json step) {
  const auto at = " at step " + std::to_string(step["step"].get<int64_t>());
  if (step["loss"].is_number() && !std::isfinite(step["loss"].get<double>()))
    throw Error("the loss is not finite" + at,
                "lower the learning rate, or check the precision of this rung");
  if (step["grad_norm"].is_number()) {  // else skipped: a loss scale that was too large
    const double norm = step["grad_norm"];
    if (norm == 0)
      throw Error("the gradient norm is zero" + at + ": nothing trains",
                  "lower the learning rate if the loss (" + step["loss"].dump() +
                      ") has left that of the first steps; else see what is frozen");
    if (!std::isfinite(norm))
      throw Error("the gradient norm is not finite" + at, "check the precision of this rung");
  }
  tell_as("step", step, sink_);
  steps_.push_back(std::move(step));
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
  return {{"steps", steps_}, {"validation", validation_}, {"saved", saved_}};
}

void RunRecord::take_up(const Json& before) {
  size_t validation = 0, saved = 0;
  const auto after = [](const Json& list, size_t next, const Json& step) {
    return next < list.size() && list[next].at("step") == step.at("step").get<int64_t>() + 1;
  };
  for (const Json& step : before.at("steps")) {
    add_step(step);
    if (after(before.at("validation"), validation, step)) add_validation(before["validation"][validation++]);
    if (after(before.at("saved"), saved, step)) add_saved(before["saved"][saved++]);
  }
  sink_({{"event", "continued"}, {"steps", steps_.size()}});
}

void RunRecord::add_to(Json& result) const {
  result["steps"] = steps_;
  result.update(summarize(steps_));
  if (!validation_.empty()) result["validation"] = validation_;
  if (!saved_.empty()) result["saved"] = saved_;
}
}  // namespace optrush
