#include "exactness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/temporary_folder.h"
#include "spec/spec_json.h"
#include "support/folders.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {
double sum_of(const Json& result, const std::string& collective, const char* field) {
  double bytes = 0;
  for (const auto& row : result.at("collectives"))
    if (row.at("name") == collective && row.at(field).is_number()) bytes += row.at(field).get<double>();
  return bytes;
}
}  // namespace

RunSpec small_spec(int64_t ranks, std::vector<PluginUse> plugins, const Json& model) {
  RunSpec spec;
  Json fields = {{"vocab_size", 61}, {"dim", 24},       {"n_layers", 3},
                 {"n_heads", 4},     {"n_kv_heads", 2}, {"ffn_dim", 36}};
  fields.update(model);
  spec.model = validate_model("llama", fields, "test");
  spec.train.world_size = ranks;
  spec.train.micro_batch = 1;
  spec.train.seq_len = 12;
  spec.train.warmup = 2;
  spec.train.steps = 8;
  spec.train.lr = 1e-2;
  spec.train.dtype = "fp64";
  spec.device = "cpu";
  spec.plugins = std::move(plugins);
  spec.plugin_path = {build_folder() + "/plugins"};
  return spec;
}

RunSpec one_process_of(RunSpec spec, int64_t batch_ranks) {
  static const std::set<std::string> kStrategies = {
      "context_parallel", "ddp", "expert_parallel", "fsdp", "pipeline_parallel", "tensor_parallel"};
  spec = on_one_process(spec, batch_ranks);
  std::erase_if(spec.plugins, [&](const PluginUse& use) { return kStrategies.contains(use.name); });
  return spec;
}

const Reference& reference_of(RankPool& pool, RanksRun run, bool states) {
  static const TemporaryFolder folder;
  static std::map<std::string, Reference> known;
  const std::string key = Json({to_json(run.spec), run.holes, run.unused_parameters, run.passes, run.drifts,
                                run.keeps, run.ends_after, run.edit, run.load, states})
                              .dump();
  if (const auto found = known.find(key); found != known.end()) return found->second;
  if (states) run.save = folder / std::to_string(known.size());
  Reference made{.trained = train_on(pool, run), .state = run.save};
  return known.emplace(key, std::move(made)).first->second;
}

void expect_state_continues(RankPool& pool, RunSpec from, RunSpec to, RunSpec one,
                            std::optional<double> norm_tolerance) {
  for (RunSpec* spec : {&from, &to, &one}) {
    spec->train.warmup = 1;
    spec->train.steps = spec == &one ? 5 : 2;
  }
  SCOPED_TRACE(std::to_string(from.train.world_size) + " to " + std::to_string(to.train.world_size));
  const TemporaryFolder folder;
  const auto& whole = reference_of(pool, {.spec = one}).trained;
  train_on(pool, {.spec = from, .save = folder / "state"});
  const auto rest = train_on(pool, {.spec = to, .load = folder / "state"});
  ASSERT_EQ(rest.losses.size(), 3U);
  EXPECT_LT(difference(rest.losses, {whole.losses.begin() + 3, whole.losses.end()}), 1e-9);
  if (!norm_tolerance) return;
  EXPECT_LT(difference(rest.norms, {whole.norms.begin() + 3, whole.norms.end()}), *norm_tolerance);
}

void expect_equal_training(RankPool& pool, RunSpec many, RunSpec one, double tolerance, bool states,
                           bool unused_parameters) {
  // Six steps, two of them warm-up. Sometimes unused parameters are left out twice. Each step reads the
  // optimizer's state of the previous steps.
  for (RunSpec* spec : {&many, &one}) spec->train.steps = std::min<int64_t>(spec->train.steps, 4);
  const TemporaryFolder folder;
  const std::string saved = states ? (folder / "many").string() : "";
  const auto a = train_on(
      pool, {.spec = many, .holes = true, .unused_parameters = unused_parameters, .save = saved, .load = {}});
  const auto& [b, state] = reference_of(
      pool, {.spec = one, .holes = true, .unused_parameters = unused_parameters, .save = {}, .load = {}},
      states);
  EXPECT_LT(difference(a.losses, b.losses), tolerance);
  EXPECT_LT(difference(a.norms, b.norms), tolerance * 100);
  if (!states) return;
  const auto [apart, where] = difference_of_states(saved, state);
  EXPECT_LT(apart, tolerance) << where;
}

void expect_predicted_peak(RankPool& pool, const RunSpec& spec, double copies) {
  std::string why_not;
  const auto predicted = forecast(spec, at::kCPU, &why_not);
  ASSERT_TRUE(predicted) << why_not;
  const auto peaks = train_on(pool, {.spec = spec}).peaks;
  const auto measured =
      static_cast<double>(peaks.at(static_cast<size_t>(predicted->memory.rank.value_or(0))));
  const double peak = predicted->memory.peak;
  EXPECT_GT(measured, 0.98 * peak);
  EXPECT_LT(measured, 1.02 * peak + copies);
  for (const int64_t each : peaks) EXPECT_LT(static_cast<double>(each), 1.02 * peak + copies);
}

std::vector<double> validation_losses(const TrainedRanks& trained) {
  std::vector<double> losses;
  for (const Json& point : trained.result.at("validation")) losses.push_back(point.at("loss"));
  return losses;
}

double sent(const Json& result, const std::string& collective) {
  return sum_of(result, collective, "sent_bytes");
}
double theory(const Json& result, const std::string& collective) {
  return sum_of(result, collective, "theory_bytes");
}
}  // namespace optrush::testing
