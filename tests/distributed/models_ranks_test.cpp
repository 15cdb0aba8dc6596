// Every variant of a decoder with every parallel strategy: training equals one process, or the stack is
// refused with a reason before anything runs. docs/reference/models.md has the resulting table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "exactness.h"
#include "optrush/error.h"
#include "support/folders.h"

namespace optrush::testing {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Choice {
  std::string name;
  Json model;
};

std::vector<Choice> choices() {
  return {
      {"biases of `q`, `k`, `v`", {{"attention_bias", "qkv"}}},
      {"biases of all projections of attention", {{"attention_bias", "all"}}},
      {"`qk_norm = \"per_head\"`", {{"qk_norm", "per_head"}, {"head_dim", 10}}},
      {"`qk_norm = \"whole\"`", {{"qk_norm", "whole"}}},
      {"`norm_placement = \"after\"`", {{"norm_placement", "after"}}},
      {"`norm_placement = \"both\"`", {{"norm_placement", "both"}, {"residual_scale", 0.5}}},
      {"`activation = \"gelu_tanh\"`", {{"activation", "gelu_tanh"}}},
      {"scales of embeddings, attention, residuals and logits",
       {{"embedding_scale", 3}, {"attention_scale", 0.7}, {"residual_scale", 0.5}, {"logits_divisor", 2}}},
      {"`attention_soft_cap`", {{"attention_soft_cap", 0.4}, {"attention_scale", 3}}},
      {"`logits_soft_cap`", {{"logits_soft_cap", 0.3}, {"init_std", 0.3}}},
      {"`window`, `window_rope_theta`",
       {{"window", 5}, {"full_attention_layers", {1}}, {"window_rope_theta", 100}}},
      {"`window`", {{"window", 5}, {"full_attention_layers", {1}}}},
      {"`full_attention` with other heads, `value_norm`, `layer_scale`",
       {{"window", 5},
        {"full_attention_layers", {1}},
        {"full_attention", {{"head_dim", 14}, {"kv_heads", 1}, {"keys_as_values", true}}},
        {"window_rope_theta", 100},
        {"rope_scaling", {{"type", "proportional"}, {"fraction", 0.5}}},
        {"qk_norm", "per_head"},
        {"value_norm", true},
        {"layer_scale", true},
        {"attention_scale", 1}}},
      {"`full_attention.keys_as_values`",
       {{"window", 5}, {"full_attention_layers", {1}}, {"full_attention", {{"keys_as_values", true}}}}},
      {"`kv_shared_layers`, `double_wide_mlp`",
       {{"n_layers", 4},
        {"window", 5},
        {"full_attention_layers", {1, 3}},
        {"kv_shared_layers", 2},
        {"double_wide_mlp", true},
        {"qk_norm", "per_head"},
        {"value_norm", true}}},
      {"`per_layer_input_dim`", {{"per_layer_input_dim", 6}, {"per_layer_vocab_size", 300}}},
      {"`layers_without_rope`", {{"layers_without_rope", {0}}}},
      {"`position = \"alibi\"`", {{"position", "alibi"}}},
      {"YaRN", {{"rope_scaling", {{"type", "yarn"}, {"factor", 4}, {"original_max_position", 8}}}}},
      {"mixture of experts",
       {{"n_experts", 5}, {"experts_per_token", 2}, {"expert_ffn_dim", 12}, {"dense_layers", {0}}}},
      {"mixture with a shared expert",
       {{"n_experts", 4}, {"shared_expert_ffn_dim", 10}, {"attention_bias", "qkv"}}},
      {"mixture with `normalize_router = false`",
       {{"n_experts", 4}, {"experts_per_token", 3}, {"normalize_router", false}}},
      {"`rotary_fraction`, `attention_sinks`",
       {{"rotary_fraction", 0.5},
        {"head_dim", 8},
        {"attention_sinks", true},
        {"window", 5},
        {"init_std", 0.2}}},
      {"`rope_scaling.query_beta`",
       {{"rope_scaling",
         {{"type", "yarn"}, {"factor", 4}, {"original_max_position", 4}, {"query_beta", 0.5}}}}},
      {"latent attention",
       {{"n_kv_heads", 4},
        {"head_dim", 12},
        {"latent", {{"kv_rank", 10}, {"q_rank", 6}, {"rope_dim", 4}, {"value_dim", 6}}}}},
      {"Gated DeltaNet",
       {{"delta_net", {{"key_heads", 2}, {"value_heads", 4}, {"key_dim", 6}, {"value_dim", 8}}},
        {"full_attention_layers", {1}},
        {"attention_gate", true},
        {"init_std", 0.2}}},
      {"`delta_net.joined`, mixture with a shared expert",
       {{"delta_net",
         {{"key_heads", 2}, {"value_heads", 4}, {"key_dim", 6}, {"value_dim", 8}, {"joined", true}}},
        {"n_experts", 4},
        {"shared_expert_ffn_dim", 10}}},
      {"Mamba 2",
       {{"mamba", {{"heads", 4}, {"groups", 2}, {"head_dim", 8}, {"state", 6}}},
        {"full_attention_layers", {1}},
        {"position", "none"},
        {"init_std", 0.2}}},
      {"`activation = \"relu2\"`, `layers_without_mlp`",
       {{"activation", "relu2"}, {"layers_without_mlp", {0}}, {"init_std", 0.1}}},
      {"mixture with `activation = \"relu2\"` and a shared expert",
       {{"activation", "relu2"},
        {"n_experts", 4},
        {"shared_expert_ffn_dim", 10},
        {"shared_expert_gate", false},
        {"init_std", 0.1}}},
      {"Mamba 2 with `norm_by_group`, mixture with `activation = \"relu2\"`",
       {{"mamba",
         {{"heads", 4},
          {"groups", 2},
          {"head_dim", 8},
          {"state", 6},
          {"norm_by_group", true},
          {"min_step", 0.5}}},
        {"full_attention_layers", {1}},
        {"layers_without_mlp", {0}},
        {"position", "none"},
        {"activation", "relu2"},
        {"n_experts", 4},
        {"shared_expert_ffn_dim", 10},
        {"shared_expert_gate", false},
        {"init_std", 0.2}}},
      {"mixture with sigmoid scores, groups and a bias of the choice",
       {{"n_experts", 4},
        {"shared_expert_ffn_dim", 10},
        {"shared_expert_gate", false},
        {"router",
         {{"scores", "sigmoid"}, {"bias", "choice"}, {"groups", 2}, {"kept_groups", 1}, {"scale", 1.5}}}}},
      {"`experts_beside_mlp`",
       {{"n_experts", 4}, {"expert_ffn_dim", 12}, {"experts_beside_mlp", true}, {"norm_placement", "both"}}},
      {"mixture with `expert_bias`",
       {{"n_experts", 4},
        {"expert_bias", true},
        {"activation", "clamped_silu"},
        {"router", {{"bias", "logits"}}}}}};
}

struct Form {
  std::string label;
  int64_t ranks, batch_ranks;
  std::vector<PluginUse> plugins;
};
struct ModelStrategy {
  std::string name;
  std::vector<Form> forms;
};

std::vector<ModelStrategy> model_strategies() {
  return {{"ddp", {{"", 2, 2, {{"ddp"}}}}},
          {"fsdp", {{"stage 3", 2, 2, {{"fsdp"}}}, {"hybrid", 4, 4, {{"fsdp", {{"shard_ranks", 2}}}}}}},
          {"tensor_parallel",
           {{"sums", 2, 1, {{"tensor_parallel"}}},
            {"sequence", 2, 1, {{"tensor_parallel", {{"sequence", true}}}}}}},
          {"context_parallel",
           {{"ring", 2, 1, {{"context_parallel"}, {"ddp"}}},
            {"all_to_all", 2, 1, {{"context_parallel", {{"kind", "all_to_all"}}}, {"fsdp"}}}}},
          {"pipeline_parallel", {{"1f1b", 2, 1, {{"pipeline_parallel", {{"size", 2}}}}}}}};
}

/// Empty if training equals one process, else the refusal.
std::string refusal_of_model(const Choice& choice, const Form& form, bool fused) {
  std::vector<PluginUse> plugins = form.plugins;
  if (fused) plugins.insert(plugins.end(), {{"flash_attention"}, {"fused_kernels"}, {"clip_grad_norm"}});
  Json model = {{"n_layers", 2}};
  model.update(choice.model);
  const RunSpec spec = small_spec(form.ranks, plugins, model);
  SCOPED_TRACE(choice.name + " with " + form.plugins.front().name + " " + form.label);
  try {
    expect_equal_training(pool(), spec, one_process_of(spec, form.batch_ranks), 1e-9, /*states=*/false);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported) << e.what();
    return e.what();
  }
  return "";
}

std::string model_cell(const Choice& choice, const ModelStrategy& strategy) {
  std::string refused;
  size_t count = 0;
  for (const auto& form : strategy.forms) {
    // Fused attention does not support these.
    const bool plain = choice.model.contains("position") || choice.model.contains("attention_soft_cap") ||
                       choice.model.contains("latent");
    if (refusal_of_model(choice, form, /*fused=*/!plain).empty()) continue;
    refused += (++count == 1 ? "`" : ", `") + form.label + "`";
  }
  if (count == strategy.forms.size()) return "no";
  return count == 0 ? "yes" : "not " + refused;
}

TEST(ModelsOnRanks, TrainAsOneProcessOrAreRefusedAsDocumented) {
  std::string table = "| |";
  for (const ModelStrategy& strategy : model_strategies()) table += " `" + strategy.name + "` |";
  table += "\n|---|";
  for (size_t i = 0; i < model_strategies().size(); ++i) table += "---|";
  table += "\n";
  for (const Choice& choice : choices()) {
    table += "| " + choice.name + " |";
    for (const ModelStrategy& strategy : model_strategies())
      table += " " + model_cell(choice, strategy) + " |";
    table += "\n";
  }
  std::ifstream file(tests_folder() + "/../docs/reference/models.md");
  const std::string docs{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(docs.find(table) != std::string::npos) << "docs/reference/models.md should have\n" << table;
}

/// With the choices that decide the shape of attention and routers. Each token passes each expert, because a
/// plan assumes that all experts get equally many tokens.
TEST(ModelsOnRanks, PeakIsPredicted) {
  for (const Choice& choice : choices()) {
    const auto has = [&](const char* field) { return choice.model.contains(field); };
    if (!has("attention_sinks") && !has("latent") && !has("router") && !has("delta_net") && !has("mamba") &&
        !has("full_attention") && !has("kv_shared_layers") && !has("per_layer_input_dim"))
      continue;
    Json model = {{"n_layers", 2}};
    model.update(choice.model);
    if (has("n_experts")) model["experts_per_token"] = model.at("n_experts");
    if (has("router") && model["router"].contains("groups")) model["router"]["kept_groups"] = 2;
    RunSpec spec = small_spec(2, {{"ddp"}}, model);
    spec.train.seq_len = 128;
    SCOPED_TRACE(choice.name);
    expect_predicted_peak(pool(), spec);
  }
}

TEST(ModelsOnRanks, FusedAttentionRefusesAlibiAndSoftCaps) {
  const Form ddp = model_strategies().front().forms.front();
  EXPECT_THAT(refusal_of_model({"alibi", {{"position", "alibi"}}}, ddp, /*fused=*/true),
              HasSubstr("'alibi'"));
  EXPECT_THAT(refusal_of_model({"soft cap", {{"attention_soft_cap", 5}}}, ddp, /*fused=*/true),
              AllOf(HasSubstr("the model needs 'soft_cap' of attention; 'flash_attention' does not offer it"),
                    HasSubstr("remove 'flash_attention' from the stack")));
}
}  // namespace
}  // namespace optrush::testing
