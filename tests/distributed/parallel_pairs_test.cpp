// Every plugin with every strategy for several ranks: three steps equal those of one process with the same
// plugin, or the stack is refused with a reason before anything runs. docs/plugins.md has the table that
// comes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "exactness.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

const std::vector<std::string> kStrategies = {"ddp", "fsdp", "tensor_parallel", "context_parallel",
                                              "pipeline_parallel"};

/// A column of the table, in several forms.
struct Strategy {
  std::string name;
  struct Form {
    int64_t ranks, batch_ranks;
    std::vector<PluginUse> plugins;
  };
  std::vector<Form> forms;
};

PluginUse use(const char* name, Json options = Json::object()) { return {name, std::move(options)}; }

std::vector<Strategy> strategies() {
  const auto pipeline = [](const char* schedule) {
    return use("pipeline_parallel", {{"size", 2}, {"schedule", schedule}});
  };
  return {
      {"ddp", {{2, 2, {use("ddp")}}}},
      {"fsdp", {{2, 2, {use("fsdp", {{"stage", 2}})}}, {4, 4, {use("fsdp", {{"shard_ranks", 2}})}}}},
      {"tensor_parallel",
       {{2, 1, {use("tensor_parallel")}}, {2, 1, {use("tensor_parallel", {{"sequence", true}})}}}},
      {"context_parallel",
       {{2, 1, {use("context_parallel"), use("ddp")}},
        {2, 1, {use("context_parallel", {{"kind", "all_to_all"}}), use("fsdp")}}}},
      {"pipeline_parallel",
       {{2, 1, {pipeline("1f1b")}}, {2, 1, {pipeline("interleaved")}}, {2, 1, {pipeline("zero_bubble")}}}}};
}

/// A row: a plugin in several forms, and how far it may be from one process with it.
struct Row {
  std::string name;
  std::vector<Json> options = {Json::object()};
  std::string dtype = "fp64";
  double tolerance = 1e-9;
};

std::vector<Row> rows() {
  return {
      {"activation_checkpointing", {{{"policy", "full"}}, {{"policy", "selective"}}, {{"policy", "budget"}}}},
      {"bf16_weights", {Json::object()}, "fp32", 2e-2},
      {"clip_grad_norm", {{{"max_norm", 0.3}}}},
      {"cpu_allocator"},
      {"cuda_graphs"},
      {"flash_attention"},
      {"float8", {Json::object()}, "fp32", 5e-2},
      {"fused_adamw"},
      {"fused_kernels"},
      {"fused_linear_cross_entropy", {{{"chunk", 5}}}},
      {"gradient_accumulation", {{{"steps", 4}}}},
      {"lora", {{{"rank", 3}}}},
      {"mixed_precision", {Json::object()}, "fp32", 2e-2},
      {"swiglu_recompute"}};
}

RankPool& pool() {
  static RankPool pool(4);
  return pool;
}

/// Four sequences a step, on whatever mesh.
RunSpec spec_of(const Row& row, const Json& options, int64_t ranks, int64_t batch_ranks,
                std::vector<PluginUse> strategy) {
  strategy.push_back({row.name, options});
  RunSpec spec = small_spec(ranks, std::move(strategy), {{"n_kv_heads", 2}});
  spec.train.dtype = row.dtype;
  spec.train.warmup = 1;
  spec.train.steps = 2;
  spec.train.accumulation = 4 / batch_ranks;
  if (row.name == "gradient_accumulation") {
    spec.plugins.back().options["steps"] = spec.train.accumulation;
    spec.train.accumulation = 1;
  }
  return spec;
}

/// "" where each form trains as one process does, else the refusal.
std::string refusal_of(const Row& row, const Strategy& strategy) {
  for (const auto& [ranks, batch_ranks, plugins] : strategy.forms)
    for (const Json& options : row.options) {
      const RunSpec spec = spec_of(row, options, ranks, batch_ranks, plugins);
      SCOPED_TRACE(plugins.front().options.dump() + " " + options.dump());
      try {
        const auto many = train_on(pool(), {.spec = spec, .holes = true});
        const auto one = train_on(pool(), {.spec = spec_of(row, options, 1, 1, {}), .holes = true});
        EXPECT_LT(difference(many.losses, one.losses), row.tolerance);
        EXPECT_LT(difference(many.norms, one.norms), std::min(row.tolerance * 100, 0.3));
      } catch (const std::runtime_error& e) {
        return e.what();
      }
    }
  return "";
}

TEST(ParallelPairs, TrainAsOneProcessOrAreRefusedAndTheDocsSaySo) {
  std::string table = "| |";
  for (const Strategy& strategy : strategies()) table += " `" + strategy.name + "` |";
  table += "\n|---|";
  for (size_t i = 0; i < strategies().size(); ++i) table += "---|";
  table += "\n";
  for (const Row& row : rows()) {
    table += "| `" + row.name + "` |";
    for (const Strategy& strategy : strategies()) {
      SCOPED_TRACE(row.name + " with " + strategy.name);
      const std::string refusal = refusal_of(row, strategy);
      if (!refusal.empty()) {
        EXPECT_THAT(refusal, HasSubstr("conflict"));
      }
      table += refusal.empty() ? " yes |" : " no |";
    }
    table += "\n";
  }
  std::ifstream file(OPTRUSH_SOURCE_DIR "/docs/plugins.md");
  const std::string docs{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(docs, HasSubstr(table));
}
}  // namespace
}  // namespace optrush::testing

int main(int argc, char** argv) {
  return optrush::testing::main_of_ranks(argc, argv, optrush::testing::training_jobs());
}
