#include "results/run_result.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/suggest.h"
#include "base/value.h"
#include "optrush/error.h"
#include "results/document_checks.h"
#include "results/read_fields.h"

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

Phases phases_from(const Json& json) {
  Phases phases;
  for (const auto& [name, value] : json.items()) phases.emplace_back(name, number(json, name.c_str()));
  return phases;
}

StepResult step_from(const Json& json) {
  check_keys(json,
             {"step", "timed", "loss", "grad_norm", "learning_rate", "tokens", "processed_tokens",
              "positions", "attention_pairs", "seconds", "phases"},
             "field", "a step", {});
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  StepResult step;
  step.step = required<int64_t>(json, "step");
  step.timed = required<bool>(json, "timed");
  for (const char* key : {"loss", "grad_norm", "phases"})  // the first two may be null
    if (!json.contains(key)) throw Error(std::string("field '") + key + "' of a step is missing");
  step.loss = number(json, "loss").value_or(kNaN);
  step.grad_norm = number(json, "grad_norm").value_or(kNaN);
  step.learning_rate = number(json, "learning_rate").value_or(kNaN);
  step.trained = required<int64_t>(json, "tokens");
  // A program that masks nothing need not say more.
  step.tokens = optional_field<int64_t>(json, "processed_tokens").value_or(step.trained);
  step.positions = optional_field<int64_t>(json, "positions").value_or(step.tokens);
  constexpr int64_t kMost = 1'000'000'000'000;  // so that a sum over steps is a number
  for (const int64_t count : {step.trained, step.tokens, step.positions})
    if (count < 0 || count > kMost) throw Error("a step of " + std::to_string(count) + " tokens");
  if (step.tokens > step.positions)
    throw Error("a step processes " + std::to_string(step.tokens) + " tokens in " +
                std::to_string(step.positions) + " positions");
  step.seconds = required<double>(json, "seconds");
  step.phases = phases_from(json.at("phases"));
  return step;
}

Memory memory_from(const Json& json) {
  check_keys(json, {"peak_allocated", "peak_reserved", "process", "parts"}, "field", "memory", {});
  Memory memory{number(json, "peak_allocated"), number(json, "peak_reserved"), number(json, "process"), {}};
  if (json.contains("parts"))
    for (const auto& [part, bytes] : json.at("parts").items())
      if (!bytes.is_null()) memory.parts.emplace_back(part, bytes.get<double>());
  return memory;
}

template <class Read>
auto list_of(const Json& json, const char* key, Read read) {
  std::vector<decltype(read(json))> list;
  const auto it = json.find(key);
  if (it == json.end()) return list;
  if (!it->is_array()) throw Error(std::string("field '") + key + "' must be a list");
  for (const auto& item : *it) list.push_back(read(item));
  return list;
}

ValidationPoint validation_point_from(const Json& json) {
  check_keys(json, {"step", "loss", "seconds"}, "field", "a validation", {});
  return {required<int64_t>(json, "step"), required<double>(json, "loss")};
}

SavedPoint saved_point_from(const Json& json) {
  check_keys(json, {"step", "seconds", "bytes"}, "field", "a saved state", {});
  return {required<int64_t>(json, "step"), required<double>(json, "seconds"),
          required<double>(json, "bytes")};
}

SampledText sampled_text_from(const Json& json) {
  check_keys(json, {"prompt", "text"}, "field", "a sample", {});
  return {required<std::string>(json, "prompt"), required<std::string>(json, "text")};
}

std::optional<BestState> best_from(const Json& json) {
  const auto best = json.find("best");
  if (best == json.end()) return std::nullopt;
  check_keys(*best, {"step", "loss"}, "field", "the best state", {});
  return BestState{required<int64_t>(*best, "step"), required<double>(*best, "loss")};
}

std::vector<CounterResult> counters_from(const Json& json) {
  std::vector<CounterResult> counters;
  const auto found = json.find("counters");
  if (found == json.end()) return counters;
  for (const auto& [plugin, list] : found->items())
    for (const Json& counter : list) {
      check_keys(counter, {"name", "unit", "per", "over_ranks", "value"}, "field", "a counter", {});
      counters.push_back({plugin, required<std::string>(counter, "name"),
                          optional_field<std::string>(counter, "unit").value_or(""),
                          optional_field<std::string>(counter, "per").value_or("run") == "step",
                          required<double>(counter, "value")});
    }
  return counters;
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
              "ranks",
              "mesh",
              "collectives",
              "cause",
              "rank",
              "turns",
              "validation",
              "counters",
              "saved",
              "trained_tokens_per_second",
              "tokens_per_step",
              "warnings",
              "cut",
              "sample",
              "best"},
             "field", "a run's result", {});
  if (const auto version = required<int64_t>(json, "schema_version"); version != 1)
    throw Error("schema_version " + std::to_string(version) + " is not known", "this build reads version 1");
  RunResult r;
  r.status = status_from(required<std::string>(json, "status"));
  r.reason = required<std::string>(json, "reason");
  r.requested_bytes = number(json, "requested_bytes");
  if (json.contains("device")) {
    const Json& device = json.at("device");
    r.device = device.at("name").get<std::string>();
    r.on_gpu = device.value("type", "") == "cuda";
    r.threads = number(device, "threads");
  }
  if (json.contains("plan")) r.plan = json.at("plan");
  if (json.contains("plugins")) {
    r.plugins = json.at("plugins");
    check_used_plugins(r.plugins, {});
  }
  r.steps = list_of(json, "steps", step_from);
  r.tokens_per_second = number(json, "tokens_per_second");
  if (r.tokens_per_second && !(*r.tokens_per_second > 0))
    throw Error("tokens_per_second is " + shown(json.at("tokens_per_second")) + ", and a speed is above 0");
  r.trained_tokens_per_second = number(json, "trained_tokens_per_second");
  if (!r.trained_tokens_per_second) r.trained_tokens_per_second = r.tokens_per_second;
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
  r.notes = optional_field<std::vector<std::string>>(json, "notes").value_or(r.notes);
  r.warnings = optional_field<std::vector<std::string>>(json, "warnings").value_or(r.warnings);
  r.turns = optional_field<std::string>(json, "turns").value_or(r.turns);
  r.cut = optional_field<std::string>(json, "cut").value_or(r.cut);
  r.validation = list_of(json, "validation", validation_point_from);
  r.saved = list_of(json, "saved", saved_point_from);
  r.sample = list_of(json, "sample", sampled_text_from);
  r.best = best_from(json);
  r.counters = counters_from(json);
  r.ranks = list_of(json, "ranks", rank_result_from_json);
  r.mesh = list_of(json, "mesh", mesh_dimension_from_json);
  r.collectives = list_of(json, "collectives", collective_from_json);
  return r;
}
}  // namespace

std::string_view to_string(Status status) { return kStatusNames.at(static_cast<size_t>(status)); }

std::optional<double> Memory::total_of_parts() const {
  for (const auto& [part, bytes] : parts)
    if (part == "total") return bytes;
  return std::nullopt;
}

Curve RunResult::curve() const {
  Curve curve;
  for (const auto& step : steps) {
    curve.losses.push_back(step.loss);
    curve.norms.push_back(step.grad_norm);
  }
  return curve;
}

int64_t RunResult::timed_tokens() const {
  int64_t tokens = 0;
  for (const auto& step : steps) tokens += step.timed ? step.tokens : 0;
  return tokens;
}

std::optional<double> RunResult::padding() const {
  int64_t positions = 0;
  for (const auto& step : steps) positions += step.timed ? step.positions : 0;
  if (positions == 0) return std::nullopt;
  return 1 - static_cast<double>(timed_tokens()) / static_cast<double>(positions);
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

std::string unhealthy(const RunResult& result, Trainer trainer) {
  const auto has_norm = [](const StepResult& step) { return !std::isnan(step.grad_norm); };
  const bool norms = trainer == Trainer::worker || std::ranges::any_of(result.steps, has_norm);
  for (const auto& step : result.steps) {
    const std::string at = " at step " + std::to_string(step.step);
    if (!std::isfinite(step.loss)) return "the loss is not finite" + at;
    if (step.grad_norm == 0) return "the gradient norm is zero" + at + ": nothing is trained";
    if (norms && step.timed && !std::isfinite(step.grad_norm))
      return "the gradient norm is not finite, or its update was skipped," + at +
             "; more warm-up steps may help";
  }
  return {};
}
}  // namespace optrush
