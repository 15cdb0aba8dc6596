// Every plugin with every parallel strategy: three steps equal one process with the same plugin, or the stack
// is refused with a reason before anything runs. docs/plugins/compatibility.md has the resulting table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "base/temporary_folder.h"
#include "mesh_runs.h"
#include "optrush/error.h"
#include "support/folders.h"

namespace optrush::testing {
namespace {
using ::testing::AnyOf;

/// A column of the table, in several forms.
struct Strategy {
  std::string name;
  struct Form {
    std::string label;
    int64_t ranks, batch_ranks;
    std::vector<PluginUse> plugins;
  };
  std::vector<Form> forms;
  Json model = Json::object();  ///< required fields of the model
};

std::vector<Strategy> strategies() {
  const auto pipeline = [](const char* schedule) {
    return use("pipeline_parallel", {{"size", 2}, {"schedule", schedule}});
  };
  return {{"ddp", {{"", 2, 2, {use("ddp")}}}},
          {"fsdp",
           {{"stage 2", 2, 2, {use("fsdp", {{"stage", 2}})}},
            {"hybrid", 4, 4, {use("fsdp", {{"shard_ranks", 2}})}}}},
          {"tensor_parallel",
           {{"sums", 2, 1, {use("tensor_parallel")}},
            {"sequence", 2, 1, {use("tensor_parallel", {{"sequence", true}})}}}},
          {"context_parallel",
           {{"ring", 2, 1, {use("context_parallel"), use("ddp")}},
            {"all_to_all", 2, 1, {use("context_parallel", {{"kind", "all_to_all"}}), use("fsdp")}}}},
          {"expert_parallel",
           {{"ddp", 2, 2, {use("expert_parallel"), use("ddp")}},
            {"fsdp", 4, 4, {use("expert_parallel"), use("fsdp")}}},
           {{"n_experts", 4}, {"experts_per_token", 2}}},
          {"pipeline_parallel",
           {{"1f1b", 2, 1, {pipeline("1f1b")}},
            {"interleaved", 2, 1, {pipeline("interleaved")}},
            {"zero_bubble", 2, 1, {pipeline("zero_bubble")}}}}};
}

/// A row: a plugin in several forms, and its allowed distance from one process.
struct Row {
  std::string name;
  std::vector<Json> options = {Json::object()};
  std::string dtype = "fp64";
  double tolerance = 1e-9;
  std::vector<PluginUse> with = {};  ///< required plugins below it
};

std::vector<Row> rows() {
  return {
      {"activation_checkpointing", {{{"policy", "full"}}, {{"policy", "selective"}}, {{"policy", "budget"}}}},
      {"adafactor"},
      {"adamw_8bit", {Json::object()}, "fp32", 2e-2},
      {"bf16_weights", {Json::object()}, "fp32", 2e-2},
      {"clip_grad_norm", {{{"max_norm", 0.3}}}},
      {"cpu_allocator"},
      {"cuda_graphs"},
      {"dpo", {Json::object()}, "fp64", 1e-9, {use("lora", {{"rank", 3}})}},
      {"dynamic_padding"},
      {"flash_attention"},
      {"float8", {Json::object(), {{"scales", "delayed"}}}, "fp32", 5e-2},
      {"fused_adamw"},
      {"fused_delta_net"},
      {"fused_kernels"},
      {"fused_linear_cross_entropy", {{{"chunk", 5}}}},
      {"fused_projections"},
      {"gradient_accumulation", {{{"steps", 8}}}},
      {"grouped_experts"},
      {"lion"},
      {"lora",
       {{{"rank", 3}},
        {{"rank", 3},
         {"use_dora", true},
         {"target_modules", {"q_proj", "v_proj", "o_proj", "down_proj"}},
         {"modules_to_save", {"norm"}},
         {"loraplus_lr_ratio", 4}}}},
      {"low_precision_norm"},
      {"mixed_precision", {Json::object()}, "fp32", 2e-2},
      {"muon", {Json::object(), {{"distributed", false}}}},
      // Ranks with columns of a matrix encode other blocks than one process.
      {"nf4", {Json::object()}, "fp32", 5e-2, {use("lora", {{"rank", 3}})}},
      {"onednn_matmul", {{{"processors", "all"}}}},
      {"optimizer_in_backward"},
      {"packing"},
      {"prefetch"},
      {"router_losses", {{{"balance", 0.1}, {"z", 0.01}}}},
      {"schedule_free"},
      {"stochastic_rounding", {Json::object()}, "fp32", 2e-2},
      {"swiglu_recompute"},
      {"upcast_matmul", {{{"processors", "all"}}}},
      {"vocab_padding"}};
}

/// Thirty documents of up to 20 tokens.
std::string documents() {
  static const TemporaryFolder folder;
  const auto path = folder / "documents.jsonl";
  if (std::filesystem::exists(path)) return path;
  std::ofstream file(path);
  for (int i = 0; i < 30; ++i) {
    file << R"({"prompt_tokens": 1, "tokens": [1)";
    for (int j = 0; j < 3 + i * 7 % 17; ++j) file << ", " << (11 * i + 3 * j * j) % 61;
    file << "]}\n";
  }
  return path;
}

/// Sixteen pairs of answers.
std::string preferences() {
  static const TemporaryFolder folder;
  const auto path = folder / "preferences.jsonl";
  if (std::filesystem::exists(path)) return path;
  std::ofstream file(path);
  for (int i = 0; i < 16; ++i) {
    file << R"({"prompt": [1, )" << i << R"(], "chosen": [2)";
    for (int j = 0; j < 2 + i * 5 % 11; ++j) file << ", " << (7 * i + 5 * j * j) % 61;
    file << R"(], "rejected": [3)";
    for (int j = 0; j < 2 + i * 7 % 13; ++j) file << ", " << (13 * i + 3 * j * j) % 61;
    file << "]}\n";
  }
  return path;
}

/// Sequences of a step: at least two micro-batches for each data-parallel rank.
int64_t sequences_of(const Row& row, int64_t batch_ranks) {
  return batch_ranks > 2 || row.name == "dpo" ? 8 : 4;
}

RunSpec spec_of(const Row& row, const Json& options, const Json& needed, int64_t ranks, int64_t batch_ranks,
                int64_t sequences, std::vector<PluginUse> strategy) {
  strategy.insert(strategy.end(), row.with.begin(), row.with.end());
  strategy.push_back({row.name, options});
  Json model = {{"n_layers", 2}, {"dim", 32}, {"ffn_dim", 64}};
  model.update(needed);
  if (row.name == "router_losses" || row.name == "grouped_experts")
    model.update({{"n_experts", 4}, {"experts_per_token", 2}});
  if (row.name == "fused_delta_net")
    model["delta_net"] = {{"key_heads", 2}, {"value_heads", 4}, {"key_dim", 8}, {"value_dim", 8}};
  RunSpec spec = small_spec(ranks, std::move(strategy), model);
  spec.train.dtype = row.dtype;
  spec.train.seq_len = 32;
  spec.train.warmup = 1;
  spec.train.steps = 2;
  spec.train.accumulation = sequences / batch_ranks;
  if (row.name == "optimizer_in_backward") {  // one micro-batch for each data-parallel rank
    const int64_t together = std::min(sequences / 2, spec.train.accumulation);
    spec.train.micro_batch *= together;
    spec.train.accumulation /= together;
  }
  if (row.name == "packing" || row.name == "dynamic_padding")
    spec.data = {.kind = "documents", .path = documents()};
  if (row.name == "dynamic_padding") spec.train.seq_len = 96;
  if (row.name == "dpo") {
    spec.data = {.kind = "preferences", .path = preferences()};
    spec.train.micro_batch *= 2;
    spec.train.accumulation /= 2;
  }
  if (row.name == "gradient_accumulation") {
    spec.plugins.back().options["steps"] = spec.train.accumulation;
    spec.train.accumulation = 1;
  }
  return spec;
}

/// All ranks together count as many tokens as one process: split sequences, padding and uneven documents
/// count once.
void expect_same_work(const Json& many, const Json& one) {
  for (const char* count : {"tokens", "processed_tokens", "positions", "attention_pairs"})
    for (size_t i = 0; i < one.at("steps").size(); ++i)
      EXPECT_EQ(many.at("steps").at(i).at(count), one.at("steps").at(i).at(count))
          << count << " of step " << i;
  EXPECT_EQ(many.at("tokens_per_step"), one.at("tokens_per_step"));
}

/// Empty if the plugin with this strategy trains as one process, else the refusal.
std::string refusal_of_row(const Row& row, const Strategy::Form& form, const Json& model) {
  for (const Json& options : row.options) {
    const int64_t sequences = sequences_of(row, form.batch_ranks);
    const RunSpec spec = spec_of(row, options, model, form.ranks, form.batch_ranks, sequences, form.plugins);
    SCOPED_TRACE(row.name + options.dump() + " with " + form.plugins.front().name + " " + form.label);
    try {
      // Holes are at places of a row, so rows of another length would have others.
      const bool holes = row.name != "dynamic_padding";
      const auto many = train_on(pool(), {.spec = spec, .holes = holes});
      const RunSpec alone = spec_of(row, options, model, 1, 1, sequences, {});
      const TrainedRanks& one = reference_of(pool(), {.spec = alone, .holes = holes}).trained;
      // Ranks that split a sequence round its length up further.
      if (row.name != "dynamic_padding") expect_same_work(many.result, one.result);
      EXPECT_LT(difference(many.losses, one.losses), row.tolerance);
      EXPECT_LT(difference(many.norms, one.norms), std::min(row.tolerance * 100, 0.3));
    } catch (const Error& e) {
      EXPECT_THAT(e.code(), AnyOf(ErrorCode::conflict, ErrorCode::unsupported)) << e.what();
      return e.what();
    }
  }
  return "";
}

/// The table's cell for a plugin with a strategy.
std::string cell(const Row& row, const Strategy& strategy) {
  std::string refused;
  size_t count = 0;
  for (const auto& form : strategy.forms) {
    if (refusal_of_row(row, form, strategy.model).empty()) continue;
    refused += (++count == 1 ? "`" : ", `") + form.label + "`";
  }
  if (count == strategy.forms.size()) return "no";
  return count == 0 ? "yes" : "not " + refused;
}

/// False for a plugin that this machine lacks a requirement of.
bool can_run(const Row& row) try {
  for (const Json& options : row.options) {
    const RunSpec alone = spec_of(row, options, Json::object(), 1, 1, sequences_of(row, 1), {});
    reference_of(pool(), {.spec = alone, .holes = true});
  }
  return true;
} catch (const Error& e) {
  return e.code() != ErrorCode::missing_requirement;
}

/// The row of `docs` for this plugin.
std::string documented(const std::string& docs, const Row& row) {
  const size_t at = docs.find("| `" + row.name + "` |");
  return at == std::string::npos ? "" : docs.substr(at, docs.find('\n', at) + 1 - at);
}

TEST(ParallelPairs, TrainAsOneProcessOrAreRefusedAsDocumented) {
  std::ifstream file(tests_folder() + "/../docs/plugins/compatibility.md");
  std::string docs{std::istreambuf_iterator<char>(file), {}};
  std::string table = "| |";
  for (const Strategy& strategy : strategies()) table += " `" + strategy.name + "` |";
  table += "\n|---|";
  for (size_t i = 0; i < strategies().size(); ++i) table += "---|";
  table += "\n";
  docs.erase(0, docs.find(table));
  for (const Row& row : rows()) {
    if (!can_run(row)) {
      std::cout << row.name << ": not compared, because this machine cannot run it\n";
      table += documented(docs, row);
      continue;
    }
    table += "| `" + row.name + "` |";
    for (const Strategy& strategy : strategies()) table += " " + cell(row, strategy) + " |";
    table += "\n";
  }
  EXPECT_TRUE(docs.starts_with(table)) << "docs/plugins/compatibility.md should have\n" << table;
}
}  // namespace
}  // namespace optrush::testing
