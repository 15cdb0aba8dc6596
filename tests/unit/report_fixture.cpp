#include "report_fixture.h"

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "analysis/gate/gate.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush::test {
namespace fs = std::filesystem;
namespace {
/// A number between -1 and 1, the same on every machine.
double noise(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a * 0x9E3779B97F4A7C15U ^ b * 0xC2B2AE3D27D4EB4FU ^ (c + 1) * 0x165667B19E3779F9U;
  x ^= x >> 31U;
  x *= 0xBF58476D1CE4E5B9U;
  return static_cast<double>(x >> 40U) / static_cast<double>(1U << 23U) - 1;
}

/// Keeps golden files readable.
double rounded(double value, double unit) { return std::round(value / unit) * unit; }

const char* effect_of(const std::string& plugin) {
  static const std::map<std::string, const char*> kEffects = {{"mixed_precision", "precision"},
                                                              {"fused_adamw", "rounding"},
                                                              {"flash_attention", "rounding"},
                                                              {"spread", "rounding"},
                                                              {"shard", "rounding"},
                                                              {"activation_checkpointing", "exact"},
                                                              {"gradient_accumulation", "batch"},
                                                              {"router_losses", "model"},
                                                              {"lora", "model"}};
  const auto it = kEffects.find(plugin);
  return it == kEffects.end() ? "exact" : it->second;
}

Json plugin_json(const PluginUse& use) {
  Json plugin = {{"name", use.name},
                 {"version", "0.0.0"},
                 {"file", "/synthetic/plugins/" + use.name + ".so"},
                 {"sha256", sha256("synthetic " + use.name)},
                 {"effect", effect_of(use.name)},
                 {"options", use.options}};
  if (use.name == "router_losses") plugin["per_micro_batch"] = true;
  return plugin;
}

Json plan_of(const RunSpec& spec) {
  Json problem = to_json(spec.train);
  Json plugins = Json::array();
  for (const auto& use : spec.plugins) {
    plugins.push_back(plugin_json(use));
    if (use.name == "gradient_accumulation") problem["accumulation"] = use.options.at("steps");
  }
  problem["global_batch"] =
      spec.train.world_size * problem["micro_batch"].get<int64_t>() * problem["accumulation"].get<int64_t>();
  Json plan = {{"schema_version", 1}, {"problem", problem}, {"model", spec.model}, {"plugins", plugins}};
  if (std::ranges::any_of(spec.plugins,
                          [](const PluginUse& use) { return use.options.value("frozen", false); }))
    plan["parameters"] = {{"count", 1000}, {"trainable", 10}, {"bytes", 4000}};
  return plan;
}

/// Adds validations, each 2 % above the step's loss, and counters of two plugins.
void add_validation(const RunSpec& spec, Json& result) {
  if (spec.validate.every == 0 || spec.purpose != Purpose::measure) return;
  const auto steps = static_cast<int64_t>(result["steps"].size());
  for (int64_t done = 1; done <= steps; ++done)
    if (done % spec.validate.every == 0 || done == steps)
      result["validation"].push_back(
          {{"step", done},
           {"loss", 1.02 * result["steps"][static_cast<size_t>(done - 1)]["loss"].get<double>()},
           {"seconds", 0.5}});
  for (const auto& use : spec.plugins) {
    result["counters"][use.name] = {
        {{"name", "moved"}, {"unit", "bytes"}, {"per", "step"}, {"over_ranks", "sum"}, {"value", 3 << 20}}};
    if (use.name == "mixed_precision")
      result["counters"][use.name].push_back(
          {{"name", "skipped updates"}, {"unit", ""}, {"per", "run"}, {"over_ranks", "max"}, {"value", 2}});
  }
}

/// Adds the fields of several ranks. A run of one rank has none.
void add_ranks(const RunSpec& spec, const Outcome& outcome, double seconds, int64_t peak, Json& result) {
  const int64_t size = spec.train.world_size;
  if (size == 1) return;
  constexpr int64_t kGradients = 100 << 20;
  const int64_t sent = 2 * kGradients * (size - 1) / size;
  const double longest = (1 - outcome.exposed_share) * seconds;
  result["ranks"] = Json::array();
  for (int64_t rank = 0; rank < size; ++rank) {
    const double busy = rank == size - 1 ? longest : longest / outcome.straggler;
    result["ranks"].push_back({{"rank", rank},
                               {"host", rank < 2 ? "a" : "b"},
                               {"device", "cpu"},
                               {"step_seconds", seconds},
                               {"busy_seconds", rounded(busy, 1e-6)},
                               {"exposed_seconds", rounded(seconds - busy, 1e-6)},
                               {"peak_allocated", peak + (rank << 20)},
                               {"parts", peak * 9 / 10},
                               {"sent_bytes", sent}});
  }
  result["mesh"] = {{{"dim", "dp"}, {"size", size}}};
  result["collectives"] = {{{"name", "all_reduce"},
                            {"group", "dp"},
                            {"ranks", size},
                            {"calls", 4},
                            {"bytes", kGradients},
                            {"sent_bytes", sent},
                            {"theory_bytes", sent}},
                           {{"name", "broadcast"},
                            {"group", "dp"},
                            {"ranks", size},
                            {"calls", 1},
                            {"bytes", 8},
                            {"sent_bytes", 8},
                            {"theory_bytes", nullptr}}};
}

Json result_of(const RunSpec& spec, const Outcome& outcome) {
  const bool bad = outcome.status != "ok" && (outcome.bad_round < 0 || outcome.bad_round == spec.round);
  if (bad) return {{"schema_version", 1}, {"status", outcome.status}, {"reason", outcome.reason}};
  const Json plan = plan_of(spec);
  const int64_t tokens = plan["problem"]["global_batch"].get<int64_t>() * spec.train.seq_len;
  const double processed = static_cast<double>(tokens) * (1 - outcome.padding);
  const auto variant = static_cast<uint64_t>(spec.variant), round = static_cast<uint64_t>(spec.round);
  const double error = spec.purpose == Purpose::probe       ? outcome.probe_loss_error
                       : spec.purpose == Purpose::reference ? 0
                                                            : outcome.loss_error;
  const double run_seconds = static_cast<double>(tokens) / outcome.tokens_per_second *
                             (1 + outcome.scatter * noise(variant, round, 99));
  Json steps = Json::array();
  for (int64_t i = 0; i < spec.train.warmup + spec.train.steps; ++i) {
    double loss =
        5.5 * std::exp(outcome.falls ? -0.03 * static_cast<double>(i) : 0.03 * static_cast<double>(i));
    if (i > 0) loss *= 1 + error;
    if (!outcome.reproducible && (spec.round > 0 || spec.purpose == Purpose::repeat)) loss *= 1 + 1e-7;
    const double seconds =
        rounded(run_seconds * (1 + 0.01 * noise(variant, round, static_cast<uint64_t>(i))), 1e-6);
    steps.push_back(
        {{"step", i},
         {"timed", i >= spec.train.warmup},
         {"loss", loss},
         {"grad_norm", outcome.grad_norm * (spec.purpose == Purpose::reference ? 1 : outcome.norm_factor)},
         {"tokens", std::llround(processed * outcome.trained)},
         {"processed_tokens", std::llround(processed)},
         {"positions", tokens},
         {"seconds", seconds},
         {"phases",
          {{"data", rounded(seconds * 0.001, 1e-7)},
           {"forward", rounded(seconds * 0.3, 1e-6)},
           {"backward", rounded(seconds * 0.6, 1e-6)},
           {"communication", nullptr},
           {"optimizer", rounded(seconds * 0.099, 1e-6)}}}});
  }
  Json plugins = Json::array();
  for (const auto& use : spec.plugins) {
    plugins.push_back(plugin_json(use));
    plugins.back().erase("effect");
    plugins.back().erase("options");
  }
  const double seconds = rounded(run_seconds, 1e-6);
  const auto peak = static_cast<int64_t>(outcome.peak_bytes);
  Json result = {{"schema_version", 1},
                 {"status", "ok"},
                 {"reason", ""},
                 {"device", {{"type", "cpu"}, {"name", "Synthetic device"}}},
                 {"plan", plan},
                 {"plugins", plugins},
                 {"steps", steps},
                 {"tokens_per_second", rounded(processed / seconds, 1e-3)},
                 {"trained_tokens_per_second", rounded(processed * outcome.trained / seconds, 1e-3)},
                 {"step_seconds", seconds},
                 {"phases", steps.back()["phases"]},
                 {"memory",
                  {{"peak_allocated", peak},
                   {"peak_reserved", nullptr},
                   {"process", peak + (64 << 20)},
                   {"parts",
                    {{"parameters", 100 << 20},
                     {"gradients", 100 << 20},
                     {"optimizer_state", 200 << 20},
                     {"activations", peak * 9 / 10 - (400 << 20)},
                     {"total", peak * 9 / 10}}}}},
                 {"flops_per_token",
                  {{"mfu", outcome.flops_per_token},
                   {"mfu_causal", outcome.flops_per_token * 0.9},
                   {"hfu", outcome.flops_per_token * 1.2}}},
                 {"costs",
                  {{"total",
                    {{"launches", 1000},
                     {"host_waits", 0},
                     {"copies", 1},
                     {"copied_bytes", 16384},
                     {"casts", 40},
                     {"cast_bytes", 3'000'000'000},
                     {"elementwise_bytes", 40'000'000'000},
                     {"matmul_flops", 2'000'000'000'000},
                     {"attention_flops", 0},
                     {"noted_flops", 0}}},
                   {"phases", Json::object()},
                   {"weight_casts", {{"parameters", 20}, {"most", 2}}},
                   {"operators", Json::object()}}},
                 {"compile_seconds", 0.0},
                 {"setup_seconds", 0.25},
                 {"notes", Json::array()}};
  if (outcome.threads > 0) result["device"]["threads"] = outcome.threads;
  add_ranks(spec, outcome, seconds, peak, result);
  add_validation(spec, result);
  return result;
}
/// Writes without fsync, because tests write thousands of files.
void write_quickly(const fs::path& file, const Json& json) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << json.dump();
}
}  // namespace

SyntheticReport::SyntheticReport(const std::string& name, int64_t rounds) {
  experiment.name = name;
  experiment.question = "SYNTHETIC FIXTURE: no number here was measured.";
  experiment.script = "/synthetic/" + name + ".lua";
  experiment.script_sha256 = sha256("synthetic");
  experiment.rounds = rounds;
  experiment.base.model = validate_model("llama", Json::object(), "fixture");
  experiment.base.train.steps = 4;
  experiment.base.train.warmup = 2;
  context = {
      {"date", "2026-01-01T00:00:00Z"},
      {"optrush_version", "0.0.0"},
      {"commit", "0000000"},
      {"host", "synthetic"},
      {"os", "Synthetic OS 1"},
      {"cpu", {{"name", "Synthetic device"}, {"cores", 2}, {"isa", {"avx2"}}, {"memory_bytes", 8589934592}}},
      {"gpus", Json::array()},
      {"torch", "2.11.0"},
      {"compiler", "GNU 12.2.0"},
      {"peak",
       {{"device", "Synthetic device"},
        {"dtype_flops", {{"fp32", 5e12}, {"bf16", 1e13}}},
        {"source", "measured"},
        {"mfu_dtype", "bf16"},
        {"mfu_denominator", 1e13}}},
      {"bandwidth_bytes_per_second", 2e10},
      {"warnings", {"the machine does not exist"}}};
}

SyntheticReport& SyntheticReport::ladder(std::vector<Rung> rungs) {
  experiment.parts.push_back({Arrangement::ladder, std::move(rungs), {}});
  return *this;
}

Plans SyntheticReport::plans(const std::vector<Variant>& variants) const {
  Plans plans;
  for (const auto& variant : variants) {
    const auto it = outcomes.find(variant.name);
    const Outcome outcome = it == outcomes.end() ? Outcome{} : it->second;
    plans.emplace_back();
    if (!outcome.has_plan) continue;
    plans.back() = plan_from_json(plan_of(variant.spec), "a synthetic plan");
    const double peak = std::floor(outcome.peak_bytes * 0.9);
    plans.back()->memory =
        PlannedMemory{.peak = peak, .least = peak, .available = double{1LL << 34}, .device = "cpu"};
  }
  return plans;
}

void SyntheticReport::write(const fs::path& folder) const {
  auto variants = expand(experiment, refused);
  if (!equals_run_once)
    for (auto& variant : variants) variant.same_as = -1;
  Plans usable = plans(variants);
  Json plan_list = Json::array();
  for (const auto& plan : usable) plan_list.push_back(to_json(plan));
  const auto outcome_of = [&](const std::string& name) {
    const auto it = outcomes.find(name);
    return it == outcomes.end() ? Outcome{} : it->second;
  };
  const auto store = [&](RunSpec spec, Purpose purpose, int64_t round, const Outcome& outcome) {
    spec.purpose = purpose;
    spec.round = round;
    const fs::path run = folder / "runs" / run_id(variants.at(static_cast<size_t>(spec.variant)), spec);
    write_quickly(run / "spec.json", to_json(spec));
    Json result = result_of(spec, outcome);
    if (experiment.trace && purpose == Purpose::measure && round == 0) {
      write_quickly(run / "trace.json", {{"traceEvents", Json::array()}});
      result["traced"] = {{"product", 0.05},      {"attention", 0.02},   {"loss", 0.01},
                          {"elementwise", 0.015}, {"optimizer", 0.0025}, {"communication", 0.},
                          {"gaps", 0.0025}};
    }
    write_quickly(run / "result.json", result);
  };
  write_quickly(folder / "experiment.json", to_json(experiment));
  Json variant_list = Json::array();
  for (const auto& variant : variants) variant_list.push_back(to_json(variant));
  write_quickly(folder / "variants.json", variant_list);
  write_quickly(folder / "plans.json", plan_list);
  write_quickly(folder / "context.json", context);
  for (const auto& variant : variants) {
    const Outcome outcome = outcome_of(variant.name);
    if (!variant.has_own_runs()) continue;
    for (int64_t round = 0; round < std::min(experiment.rounds, outcome.rounds); ++round)
      store(variant.spec, Purpose::measure, round, outcome);
  }
  // As in the controller, a run that failed or broke the gate is not a reference.
  for (const auto& variant : variants)
    if (const Outcome o = outcome_of(variant.name); o.status != "ok" || o.loss_error > 0.05)
      usable[static_cast<size_t>(variant.index)].reset();
  for (const auto& check : plan_gate(variants, usable)) {
    const Outcome outcome = outcome_of(variants[static_cast<size_t>(check.variant)].name);
    if (!outcome.has_extra_runs) continue;
    if (check.subject) store(*check.subject, Purpose::probe, 0, outcome);
    if (check.reference) store(*check.reference, Purpose::reference, 0, outcome);
    if (check.repeat && experiment.rounds == 1 && !check.reference)
      store(*check.repeat, Purpose::repeat, 0,
            outcome_of(variants[static_cast<size_t>(check.reference_variant)].name));
  }
  if (drift_tokens_per_second > 0) {
    Outcome drift;
    drift.tokens_per_second = drift_tokens_per_second;
    store(variants.front().spec, Purpose::drift, experiment.rounds, drift);
  }
}

std::string packed(const fs::path& folder, const std::vector<StoredRun>& runs) {
  std::string lines;
  for (const StoredRun& run : runs) {
    const fs::path files = folder / "runs" / run.id;
    const Json line = {{"id", run.id},
                       {"spec", read_json(files / "spec.json")},
                       {"result", read_json(files / "result.json")}};
    lines += line.dump() + "\n";
  }
  return lines;
}

Rung rung(std::string name, std::string plugin, Json options) {
  Rung rung;
  rung.name = std::move(name);
  rung.plugins = {{std::move(plugin), std::move(options)}};
  rung.where = "synthetic.lua:1";
  return rung;
}

Rung setting(std::string name, Json settings) {
  Rung rung;
  rung.name = std::move(name);
  rung.settings = std::move(settings);
  rung.where = "synthetic.lua:1";
  return rung;
}

Analysis analysis_of(const SyntheticReport& report) {
  const TemporaryFolder folder;
  report.write(folder.path());
  return analyze(load_report(folder.path(), ResultParts{}));
}

const Row& row(const Analysis& analysis, const std::string& name) {
  for (const Row& row : analysis.rows)
    if (row.name == name) return row;
  throw Error("no row " + name);
}

std::vector<GateCheck> plan_gate(const std::vector<Variant>& variants, const Plans& plans) {
  std::vector<GateCheck> checks;
  for (size_t i = 0; i < variants.size(); ++i)
    if (plans.at(i)) checks.push_back(plan_check(variants, plans, static_cast<int64_t>(i)));
  return checks;
}
}  // namespace optrush::test
