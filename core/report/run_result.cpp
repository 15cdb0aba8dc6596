#include "report/run_result.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/suggest.h"
#include "base/value.h"
#include "optrush/error.h"

namespace optrush {
namespace {
constexpr std::array<std::string_view, 7> kStatusNames = {"ok",      "oom",     "failed", "crashed",
                                                          "timeout", "skipped", "broken"};

Status status_from(const std::string& name) {
  const auto it = std::find(kStatusNames.begin(), kStatusNames.end(), name);
  if (it == kStatusNames.end())
    throw Error("unknown status '" + name + "'",
                did_you_mean(name, {kStatusNames.begin(), kStatusNames.end()}));
  return static_cast<Status>(it - kStatusNames.begin());
}

std::optional<double> number(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return std::nullopt;
  if (!it->is_number()) throw Error(std::string("field '") + key + "' is no number");
  return it->get<double>();
}

Phases phases_from(const Json& json) {
  Phases phases;
  for (const auto& [name, value] : json.items()) phases.emplace_back(name, number(json, name.c_str()));
  return phases;
}

StepResult step_from(const Json& json) {
  check_keys(json, {"step", "timed", "loss", "grad_norm", "tokens", "seconds", "phases"}, "field", "a step",
             {});
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  StepResult step;
  step.step = json.at("step").get<int64_t>();
  step.timed = json.at("timed").get<bool>();
  step.loss = json.at("loss").is_null() ? kNaN : json.at("loss").get<double>();
  step.grad_norm = json.at("grad_norm").is_null() ? kNaN : json.at("grad_norm").get<double>();
  step.tokens = json.at("tokens").get<int64_t>();
  step.seconds = json.at("seconds").get<double>();
  step.phases = phases_from(json.at("phases"));
  return step;
}

Memory memory_from(const Json& json) {
  check_keys(json, {"peak_allocated", "peak_reserved", "process", "predicted"}, "field", "memory", {});
  Memory memory{number(json, "peak_allocated"), number(json, "peak_reserved"), number(json, "process"), {}};
  if (json.contains("predicted"))
    for (const auto& [part, bytes] : json.at("predicted").items())
      if (!bytes.is_null()) memory.predicted.emplace_back(part, bytes.get<double>());
  return memory;
}

RunResult read(const Json& json) {
  check_keys(json,
             {"schema_version",
              "status",
              "reason",
              "requested_bytes",
              "device",
              "plan",
              "plugins",
              "steps",
              "tokens_per_second",
              "step_seconds",
              "phases",
              "memory",
              "flops_per_token",
              "costs",
              "compile_seconds",
              "setup_seconds",
              "energy_joules",
              "notes",
              "rank",
              "cause",
              "ranks",
              "mesh",
              "collectives"},
             "field", "a run's result", {});
  if (json.at("schema_version") != 1)
    throw Error("schema_version " + json.at("schema_version").dump() + " is not known",
                "this build reads version 1");
  RunResult r;
  r.status = status_from(json.at("status").get<std::string>());
  r.reason = json.at("reason").get<std::string>();
  r.requested_bytes = number(json, "requested_bytes");
  if (json.contains("device")) r.device = json.at("device").at("name").get<std::string>();
  if (json.contains("plan")) r.plan = json.at("plan");
  if (json.contains("plugins")) r.plugins = json.at("plugins");
  if (json.contains("steps"))
    for (const auto& step : json.at("steps")) r.steps.push_back(step_from(step));
  r.tokens_per_second = number(json, "tokens_per_second");
  r.step_seconds = number(json, "step_seconds");
  if (json.contains("phases")) r.phases = phases_from(json.at("phases"));
  if (json.contains("memory")) r.memory = memory_from(json.at("memory"));
  if (json.contains("flops_per_token")) {
    const Json& flops = json.at("flops_per_token");
    r.mfu_flops = number(flops, "mfu");
    r.mfu_causal_flops = number(flops, "mfu_causal");
    r.hfu_flops = number(flops, "hfu");
  }
  if (json.contains("costs")) r.costs = json.at("costs");
  r.compile_seconds = number(json, "compile_seconds").value_or(0);
  r.setup_seconds = number(json, "setup_seconds").value_or(0);
  r.energy_joules = number(json, "energy_joules");
  if (json.contains("notes")) r.notes = json.at("notes").get<std::vector<std::string>>();
  return r;
}
}  // namespace

std::string_view to_string(Status status) { return kStatusNames.at(static_cast<size_t>(status)); }

std::optional<double> Memory::predicted_total() const {
  for (const auto& [part, bytes] : predicted)
    if (part == "total") return bytes;
  return std::nullopt;
}

std::vector<double> RunResult::losses() const {
  std::vector<double> losses;
  for (const auto& step : steps) losses.push_back(step.loss);
  return losses;
}

int64_t RunResult::timed_tokens() const {
  int64_t tokens = 0;
  for (const auto& step : steps) tokens += step.timed ? step.tokens : 0;
  return tokens;
}

RunResult run_result_from_json(const Json& json, const std::string& where) {
  try {
    return read(json);
  } catch (const Error& e) {
    throw e.at(where);
  } catch (const Json::exception& e) {
    throw Error(std::string("not a run's result: ") + e.what(), {}, where);
  }
}

std::string unhealthy(const RunResult& result) {
  for (const auto& step : result.steps) {
    const std::string at = " at step " + std::to_string(step.step);
    if (!std::isfinite(step.loss)) return "the loss is not finite" + at;
    if (step.grad_norm == 0) return "the gradient norm is zero" + at + ": nothing is trained";
    if (step.timed && !std::isfinite(step.grad_norm))
      return "the gradient norm is not finite, or its update was skipped," + at +
             "; more warm-up steps may help";
  }
  return {};
}
}  // namespace optrush
