// Configurations of the classes of transformers: reading each, and choosing the one to write.
#include <gmock/gmock.h>

#include <cmath>

#include "../support/error_of.h"
#include "checkpoint/checkpoint_files.h"
#include "checkpoint/written_config.h"
#include "hugging_face_fixture.h"

namespace optrush {
namespace {
using optrush::testing::error_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(HuggingFace, ReadsTheChoicesOfEachClass) {
  const auto of = [&](const char* architecture, Json patch = Json::object()) {
    patch["architectures"] = {architecture};
    patch["num_key_value_heads"] = 2;
    patch["num_hidden_layers"] = 6;
    return config(patch);
  };
  const LlamaSpec qwen2 = of("Qwen2ForCausalLM");
  EXPECT_EQ(qwen2.attention_bias, AttentionBias::qkv);
  EXPECT_EQ(qwen2.window, 0);
  const LlamaSpec windowed = of(
      "Qwen2ForCausalLM", {{"use_sliding_window", true}, {"sliding_window", 16}, {"max_window_layers", 4}});
  EXPECT_EQ(windowed.window, 16);
  EXPECT_THAT(windowed.full_attention_layers, ::testing::ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(of("Qwen2ForCausalLM", {{"use_sliding_window", true}, {"max_window_layers", 6}}).window, 0);
  const LlamaSpec qwen3 = of("Qwen3ForCausalLM");
  EXPECT_EQ(qwen3.qk_norm, QkNorm::per_head);
  EXPECT_EQ(qwen3.head_size(), 128) << "the default of the class";
  EXPECT_EQ(of("Qwen3ForCausalLM", {{"attention_bias", true}}).attention_bias, AttentionBias::all);
  const LlamaSpec olmo2 = of("Olmo2ForCausalLM");
  EXPECT_EQ(olmo2.norm_placement, NormPlacement::after);
  EXPECT_EQ(olmo2.qk_norm, QkNorm::whole);
  EXPECT_EQ(olmo2.norm_eps, 1e-5);
  const LlamaSpec olmo3 = of("Olmo3ForCausalLM");
  EXPECT_EQ(olmo3.window, 4096);
  EXPECT_THAT(olmo3.full_attention_layers, ::testing::ElementsAre(3));
  const LlamaSpec smollm3 = of("SmolLM3ForCausalLM");
  EXPECT_THAT(smollm3.layers_without_rope, ::testing::ElementsAre(3));
  EXPECT_EQ(smollm3.rope_theta, 2000000);
  EXPECT_TRUE(smollm3.tie_embeddings);
  EXPECT_THAT(of("SmolLM3ForCausalLM", {{"no_rope_layers", {0, 1, 1, 1, 1, 0, 0}}}).layers_without_rope,
              ::testing::ElementsAre(0, 5));
  EXPECT_EQ(of("MistralForCausalLM").window, 4096);
  const LlamaSpec gemma2 = of("Gemma2ForCausalLM");
  EXPECT_EQ(gemma2.activation, Activation::gelu_tanh);
  EXPECT_EQ(gemma2.norm_placement, NormPlacement::both);
  EXPECT_EQ(gemma2.qk_norm, QkNorm::none);
  EXPECT_EQ(gemma2.attention_scale, 1.0 / 16);
  EXPECT_EQ(gemma2.attention_soft_cap, 50);
  EXPECT_EQ(gemma2.logits_soft_cap, 30);
  EXPECT_EQ(gemma2.window, 4096);
  EXPECT_THAT(gemma2.full_attention_layers, ::testing::ElementsAre(1, 3, 5));
  Json without_caps = read_json(folder_ / "config.json");  // merge_patch would remove the nulls
  without_caps["attn_logit_softcapping"] = without_caps["final_logit_softcapping"] = nullptr;
  const LlamaSpec uncapped = read_hugging_face_config(ConfigFields(without_caps, "config.json")).llama;
  EXPECT_EQ(uncapped.attention_soft_cap, 0);
  EXPECT_EQ(uncapped.logits_soft_cap, 0);
  EXPECT_EQ(of("Gemma3ForCausalLM", {{"final_logit_softcapping", 25.5}}).logits_soft_cap, 25.5);
  const LlamaSpec gemma3 = of("Gemma3ForCausalLM");
  EXPECT_EQ(gemma3.activation, Activation::gelu_tanh);
  EXPECT_EQ(gemma3.norm_placement, NormPlacement::both);
  EXPECT_EQ(gemma3.embedding_scale, 8);
  EXPECT_EQ(gemma3.attention_scale, 1.0 / 16);
  EXPECT_EQ(gemma3.rope_theta, 1e6);
  EXPECT_EQ(gemma3.window_rope_theta, 1e4);
  EXPECT_THAT(gemma3.full_attention_layers, ::testing::ElementsAre(5));
  const Json of_5 = {{"full_attention", {{"rope_type", "linear"}, {"rope_theta", 5e5}, {"factor", 8.0}}},
                     {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 2e4}}}};
  const LlamaSpec by_type = of("Gemma3ForCausalLM", {{"rope_parameters", of_5}});
  EXPECT_EQ(by_type.rope_theta, 5e5);
  EXPECT_EQ(by_type.rope_scaling.factor, 8);
  EXPECT_EQ(by_type.window_rope_theta, 2e4);
  const LlamaSpec olmo3_yarn =
      of("Olmo3ForCausalLM", {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}}}});
  EXPECT_EQ(olmo3_yarn.window_rope_theta, olmo3_yarn.rope_theta);
  const LlamaSpec granite =
      of("GraniteForCausalLM",
         {{"embedding_multiplier", 12.0}, {"residual_multiplier", 0.22}, {"logits_scaling", 8.0}});
  EXPECT_EQ(granite.attention_scale, 1) << "the default of the class";
  EXPECT_EQ(granite.embedding_scale, 12);
  EXPECT_EQ(granite.residual_scale, 0.22);
  EXPECT_EQ(granite.logits_divisor, 8);
  const LlamaSpec mixtral = of("MixtralForCausalLM", {{"num_local_experts", 8}});
  EXPECT_EQ(mixtral.n_experts, 8);
  EXPECT_EQ(mixtral.experts_per_token, 2);
  EXPECT_TRUE(mixtral.normalize_router);
  EXPECT_EQ(mixtral.window, 0);
  const LlamaSpec qwen2_moe = of("Qwen2MoeForCausalLM", {{"num_experts", 60}, {"moe_intermediate_size", 40}});
  EXPECT_EQ(qwen2_moe.n_experts, 60);
  EXPECT_EQ(qwen2_moe.experts_per_token, 4);
  EXPECT_EQ(qwen2_moe.expert_ffn_dim, 40);
  EXPECT_EQ(qwen2_moe.shared_expert_ffn_dim, 5632);
  EXPECT_EQ(qwen2_moe.attention_bias, AttentionBias::qkv);
  EXPECT_FALSE(qwen2_moe.normalize_router);
  EXPECT_EQ(of("Qwen2MoeForCausalLM", {{"num_experts", 60}, {"qkv_bias", false}}).attention_bias,
            AttentionBias::none);
  const LlamaSpec qwen3_moe = of("Qwen3MoeForCausalLM", {{"num_experts", 16},
                                                         {"moe_intermediate_size", 40},
                                                         {"decoder_sparse_step", 2},
                                                         {"mlp_only_layers", {1}}});
  EXPECT_EQ(qwen3_moe.experts_per_token, 8);
  EXPECT_EQ(qwen3_moe.expert_ffn_dim, 40);
  EXPECT_FALSE(qwen3_moe.normalize_router);
  EXPECT_THAT(qwen3_moe.dense_layers, ::testing::ElementsAre(0, 1, 2, 4));
}

TEST_F(HuggingFace, ReadsTheRoutersOfGlmDeepSeekAndGptOss) {
  const auto of = [&](const char* architecture, Json patch = Json::object()) {
    patch["architectures"] = {architecture};
    patch["num_hidden_layers"] = 6;
    return config(patch);
  };
  const LlamaSpec glm = of("Glm4MoeForCausalLM", {{"num_key_value_heads", 2}, {"n_shared_experts", 2}});
  EXPECT_EQ(glm.router, (Router{.scores = RouterScores::sigmoid, .bias = RouterBias::choice}));
  EXPECT_EQ(glm.n_experts, 128);
  EXPECT_EQ(glm.expert_ffn_dim, 1408);
  EXPECT_EQ(glm.shared_expert_ffn_dim, 2816);
  EXPECT_FALSE(glm.shared_expert_gate);
  EXPECT_EQ(glm.rotary_fraction, 0.5) << "the default of the class";
  EXPECT_EQ(glm.qk_norm, QkNorm::none);
  EXPECT_THAT(glm.dense_layers, ::testing::ElementsAre(0));

  const LlamaSpec deepseek = of("DeepseekV3ForCausalLM");
  EXPECT_EQ(deepseek.router, (Router{RouterScores::sigmoid, RouterBias::choice, 8, 4, 2.5}));
  EXPECT_EQ(deepseek.latent, (LatentAttention{512, 1536, 64, 128, true}));
  EXPECT_EQ(deepseek.head_size(), 192);
  EXPECT_EQ(deepseek.value_size(), 128);
  EXPECT_EQ(deepseek.rotary_size(), 64);
  EXPECT_EQ(deepseek.n_kv_heads, 4);
  EXPECT_THAT(deepseek.dense_layers, ::testing::ElementsAre(0, 1, 2));
  const LlamaSpec scaled =
      of("DeepseekV3ForCausalLM",
         {{"rope_scaling", {{"type", "yarn"}, {"factor", 40}, {"mscale", 1.0}, {"mscale_all_dim", 1.0}}}});
  const double m = 0.1 * std::log(40.0) + 1;
  EXPECT_NEAR(scaled.score_scale(), m * m / std::sqrt(192.0), 1e-15);
  EXPECT_EQ(scaled.rope_scaling.attention_factor, 1);

  const Json yarn = {{"rope_type", "yarn"},
                     {"factor", 32.0},
                     {"original_max_position_embeddings", 4096},
                     {"truncate", false}};
  const auto gpt_oss = [&](Json patch) {
    patch.update({{"num_key_value_heads", 2}, {"num_local_experts", 32}, {"rope_scaling", yarn}});
    return of("GptOssForCausalLM", patch);
  };
  const LlamaSpec oss =
      gpt_oss({{"swiglu_limit", 7.0}, {"quantization_config", {{"quant_method", "mxfp4"}}}});
  EXPECT_EQ(oss.router, (Router{.bias = RouterBias::logits}));
  EXPECT_TRUE(oss.attention_sinks && oss.expert_bias && oss.normalize_router);
  EXPECT_EQ(oss.activation, Activation::clamped_silu);
  EXPECT_EQ(oss.attention_bias, AttentionBias::all);
  EXPECT_EQ(oss.window, 128);
  EXPECT_THAT(oss.full_attention_layers, ::testing::ElementsAre(1, 3, 5));
  EXPECT_EQ(oss.experts_per_token, 4);
  EXPECT_THAT(error_of([&] { gpt_oss({{"swiglu_limit", 5}}); }), HasSubstr("'swiglu_limit' is 5"));
  EXPECT_THAT(error_of([&] {
                gpt_oss({{"quantization_config", {{"quant_method", "awq"}}}});
              }),
              HasSubstr("'quantization_config'"));
  EXPECT_THAT(error_of([&] {
                of("GptOssForCausalLM", {{"num_key_value_heads", 2}, {"num_local_experts", 4}});
              }),
              HasSubstr("'rope_scaling' and 'rope_parameters' are missing"));
  EXPECT_THAT(error_of([&] {
                of("DeepseekV3ForCausalLM", {{"num_key_value_heads", 2}});
              }),
              HasSubstr("as many key/value heads as query heads"));
}

TEST_F(HuggingFace, ReadsTheLayersOfQwen3NextAndQwen35) {
  const auto of = [&](const char* architecture, Json patch = Json::object()) {
    patch.update({{"architectures", {architecture}},
                  {"num_hidden_layers", 6},
                  {"num_experts", 12},
                  {"moe_intermediate_size", 24}});
    return config(patch);
  };
  const LlamaSpec next = of("Qwen3NextForCausalLM");
  EXPECT_EQ(next.delta_net, (DeltaNet{.key_heads = 16, .value_heads = 32, .joined = true}));
  EXPECT_THAT(next.full_attention_layers, ::testing::ElementsAre(3)) << "the default of the class";
  EXPECT_TRUE(next.attention_gate);
  EXPECT_EQ(next.rotary_fraction, 0.25);
  EXPECT_EQ(next.n_kv_heads, 2);
  EXPECT_EQ(next.head_size(), 256);
  EXPECT_EQ(next.experts_per_token, 10);
  EXPECT_EQ(next.shared_expert_ffn_dim, 512);
  EXPECT_THAT(of("Qwen3NextForCausalLM", {{"full_attention_interval", 3}}).full_attention_layers,
              ::testing::ElementsAre(2, 5));
  const Json full = std::vector<std::string>(6, "full_attention");
  EXPECT_FALSE(of("Qwen3NextForCausalLM", {{"layer_types", full}}).has_delta_net());
  Json types = full;
  types[1] = "linear_attention";
  const LlamaSpec dense = of("Qwen3_5ForCausalLM", {{"layer_types", types}, {"linear_num_key_heads", 8}});
  EXPECT_EQ(dense.delta_net, (DeltaNet{.key_heads = 8, .value_heads = 32}));
  EXPECT_THAT(dense.full_attention_layers, ::testing::ElementsAre(0, 2, 3, 4, 5));
  EXPECT_EQ(dense.n_experts, 0);
  const LlamaSpec mixture = of("Qwen3_5MoeForCausalLM", {{"intermediate_size", nullptr}});
  EXPECT_EQ(mixture.expert_ffn_dim, 24);
  EXPECT_EQ(mixture.experts_per_token, 8);
  types[1] = "sliding_attention";
  EXPECT_THAT(error_of([&] {
                of("Qwen3_5ForCausalLM", {{"layer_types", types}});
              }),
              HasSubstr(R"(supported values: "full_attention" and "linear_attention")"));
  EXPECT_THAT(error_of([&] {
                of("Qwen3_5ForCausalLM", {{"hidden_act", "gelu"}});
              }),
              HasSubstr("which the short convolution does not support"));
}

TEST_F(HuggingFace, ReadsTheHeadsOfGemma4) {
  const Json common = {{"architectures", {"Gemma4ForCausalLM"}},
                       {"num_key_value_heads", 2},
                       {"num_hidden_layers", 8},
                       {"hidden_size_per_layer_input", 0}};
  const auto of = [&](const Json& patch = Json::object()) {
    Json fields = common;
    fields.update(patch);
    return config(fields);
  };
  const LlamaSpec usual = of();
  EXPECT_THAT(usual.full_attention_layers, ::testing::ElementsAre(5, 7)) << "each sixth, and the last";
  EXPECT_EQ(usual.full_attention, (FullAttention{.head_dim = 512}));
  EXPECT_EQ(usual.head_size(4), 256);
  EXPECT_EQ(usual.head_size(5), 512);
  EXPECT_EQ(usual.rope_scaling, (RopeScaling{.type = RopeType::proportional, .fraction = 0.25}));
  EXPECT_EQ(usual.rotary_fraction, 1);
  EXPECT_EQ(usual.rope_theta, 1e6);
  EXPECT_EQ(usual.window_rope_theta, 10000);
  EXPECT_EQ(usual.score_scale(5), 1);
  EXPECT_TRUE(usual.value_norm && usual.layer_scale);
  const Json shared = {{"attention_k_eq_v", true}, {"num_global_key_value_heads", 1}};
  const LlamaSpec published = of(shared);
  EXPECT_EQ(published.full_attention,
            (FullAttention{.head_dim = 512, .kv_heads = 1, .keys_as_values = true}));
  EXPECT_EQ(published.kv_heads(4), 2);
  EXPECT_EQ(published.kv_heads(5), 1);
  EXPECT_EQ(of({{"num_global_key_value_heads", 1}}).kv_heads(5), 2) << "as transformers, without shared keys";
  const Json heads = {{"head_dim", 64}, {"num_key_value_heads", 1}};
  EXPECT_EQ(of({{"per_layer_config", {{"5", heads}, {"7", heads}}}}).full_attention,
            (FullAttention{.head_dim = 64, .kv_heads = 1}));
  EXPECT_EQ(of({{"per_layer_config", Json::object()}}).full_attention, FullAttention{});
  EXPECT_EQ(of({{"rope_parameters",
                 {{"full_attention", {{"rope_type", "proportional"}, {"rope_theta", 7e5}}},
                  {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 300.0}}}}}})
                .rope_scaling.fraction,
            1);
  const LlamaSpec mixture = of(
      {{"enable_moe_block", true}, {"num_experts", 8}, {"top_k_experts", 3}, {"moe_intermediate_size", 40}});
  EXPECT_TRUE(mixture.experts_beside_mlp && mixture.has_experts(0));
  EXPECT_EQ(mixture.experts_per_token, 3);
  EXPECT_EQ(mixture.expert_ffn_dim, 40);
  const std::pair<Json, const char*> refused[] = {
      {{{"hidden_size_per_layer_input", 16}, {"vocab_size_per_layer_input", 12}},
       "model.per_layer_vocab_size (12) is below model.vocab_size"},
      {{{"num_kv_shared_layers", 3}}, "layer 5 has full attention, but no layer with its own keys"},
      {{{"num_kv_shared_layers", 8}}, "allowed values: 0 to 7"},
      {{{"enable_moe_block", true}}, "'num_experts' is missing"},
      {{{"use_bidirectional_attention", "all"}}, "causal"},
      {{{"layer_types", std::vector<std::string>(8, "sliding_attention")}}, "the last one full attention"},
      {{{"layer_types", std::vector<std::string>(8, "full_attention")}}, "a layer must have a window"},
      {{{"per_layer_config", {{"5", heads}}}}, "lists the layers [5]"},
      {{{"per_layer_config", {{"5", heads}, {"7", {{"head_dim", 32}}}}}}, "for layer 7"},
      {{{"per_layer_config", {{"5", {{"hidden_size", 64}}}}}}, "for layer 5"}};
  for (const auto& [patch, message] : refused)
    EXPECT_THAT(error_of([&, patch = patch] { of(patch); }), HasSubstr(message)) << patch;
}

TEST_F(HuggingFace, ReadsWhatLayersOfGemma4ReadOfEarlierOnes) {
  const auto of = [&](Json fields) {
    fields.update({{"architectures", {"Gemma4ForCausalLM"}}, {"num_hidden_layers", 8}});
    return config(fields);
  };
  const LlamaSpec inputs = of(Json::object());
  EXPECT_EQ(inputs.per_layer_input_dim, 256) << "the default of the class";
  EXPECT_EQ(inputs.per_layer_vocab(), 262144);
  EXPECT_EQ(inputs.kv_layer(7), 7);
  EXPECT_FALSE(inputs.shares_kv(7));
  const LlamaSpec shared = of({{"num_kv_shared_layers", 2},
                               {"hidden_size_per_layer_input", 0},
                               {"use_double_wide_mlp", true},
                               {"intermediate_size", 40}});
  EXPECT_EQ(shared.kv_layer(6), 4) << "the last layer with a window that has keys";
  EXPECT_EQ(shared.kv_layer(7), 5);
  std::vector<int64_t> sharing, wide;
  for (int64_t layer = 0; layer < 8; ++layer) {
    if (shared.shares_kv(layer)) sharing.push_back(layer);
    if (shared.mlp_width(layer) == 80) wide.push_back(layer);
  }
  EXPECT_THAT(sharing, ::testing::ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(wide, ::testing::ElementsAre(6, 7));
  EXPECT_FALSE(of({{"use_double_wide_mlp", true}}).double_wide_mlp) << "no layer shares keys";
}

TEST_F(HuggingFace, ReadsGranite4) {
  const auto of = [&](Json patch) {
    Json fields = {{"architectures", {"GraniteMoeHybridForCausalLM"}},
                   {"num_hidden_layers", 3},
                   {"num_local_experts", 0},
                   {"shared_intermediate_size", 40},
                   {"mamba_n_heads", 8},
                   {"layer_types", {"mamba", "attention", "mamba"}}};
    fields.update(patch);
    return config(fields);
  };
  const LlamaSpec dense = of({{"mamba_d_head", 16}, {"position_embedding_type", "nope"}});
  EXPECT_EQ(dense.mamba, (Mamba2{.heads = 8, .head_dim = 16, .state = 256}));
  EXPECT_THAT(dense.full_attention_layers, ::testing::ElementsAre(1));
  EXPECT_EQ(dense.position, PositionKind::none);
  EXPECT_EQ(dense.ffn_dim, 40);
  EXPECT_EQ(dense.score_scale(), 1) << "the default of the class";
  const Json types_of_5 = {"linear_attention", "full_attention", "linear_attention"};
  const Json no_limits = Json::array({0.0, {{"__float__", "Infinity"}}});
  EXPECT_EQ(of({{"layer_types", types_of_5}, {"time_step_limit", no_limits}, {"mamba_d_head", "auto"}}),
            dense);
  EXPECT_EQ(config_of_checkpoint(folder_)["layer_types"], Json({"mamba", "attention", "mamba"}));
  const LlamaSpec attention =
      of({{"layer_types", {"attention", "attention", "attention"}}, {"position_embedding_type", "rope"}});
  EXPECT_FALSE(attention.has_mamba());
  EXPECT_EQ(attention.position, PositionKind::rope);
  EXPECT_TRUE(of({{"layer_types", nullptr}}).has_linear_attention(1)) << "the default of the class";
  const LlamaSpec mixture = of({{"num_local_experts", nullptr}});
  EXPECT_EQ(mixture.n_experts, 8);
  EXPECT_EQ(mixture.ffn_dim, 113);
  EXPECT_EQ(mixture.shared_expert_ffn_dim, 40);
  EXPECT_FALSE(mixture.shared_expert_gate);
  const auto refused = [&](const Json& patch) { return error_of([&] { of(patch); }); };
  EXPECT_THAT(refused({{"mamba_n_groups", 2}}), HasSubstr("versions of transformers have different norms"));
  EXPECT_THAT(refused({{"time_step_limit", {0.001, 0.1}}}),
              HasSubstr("which versions of transformers ignore"));
  EXPECT_THAT(refused({{"mamba_d_head", 20}}), HasSubstr("'mamba_d_head' is 20"));
  EXPECT_THAT(refused({{"hidden_act", "gelu"}}), HasSubstr("which the short convolution does not support"));
  EXPECT_THAT(refused({{"head_dim", 24}}), HasSubstr("divides hidden_size among the heads"));
  EXPECT_THAT(refused({{"output_router_logits", true}}), HasSubstr("load-balancing loss"));
}

TEST_F(HuggingFace, ReadsTheLayersOfNemotronH) {
  const auto of = [&](Json patch) {
    Json fields = {{"architectures", {"NemotronHForCausalLM"}},
                   {"num_hidden_layers", nullptr},
                   {"num_key_value_heads", 2},
                   {"hybrid_override_pattern", "M-MM*-ME"}};
    fields.update(patch);
    return config(fields);
  };
  const LlamaSpec mixture = of({{"num_hidden_layers", 8}});
  EXPECT_EQ(mixture.n_layers, 5);
  EXPECT_THAT(mixture.full_attention_layers, ::testing::ElementsAre(3));
  EXPECT_THAT(mixture.layers_without_mlp, ::testing::ElementsAre(1, 2));
  EXPECT_THAT(mixture.dense_layers, ::testing::ElementsAre(0, 3));
  EXPECT_EQ(mixture.mamba, (Mamba2{.heads = 128, .groups = 8, .norm_by_group = true, .min_step = 0.001}));
  EXPECT_EQ(mixture.router, (Router{.scores = RouterScores::sigmoid, .bias = RouterBias::choice}));
  EXPECT_EQ(mixture.expert_ffn_dim, 7688);
  EXPECT_EQ(mixture.shared_expert_ffn_dim, 7688);
  EXPECT_FALSE(mixture.shared_expert_gate || mixture.has_gate());
  EXPECT_EQ(mixture.position, PositionKind::none);
  EXPECT_EQ(mixture.head_size(), 128);
  EXPECT_EQ(of({{"layer_norm_epsilon", 1e-6}, {"rms_norm_eps", 1e-3}}).norm_eps, 1e-6);
  const Json types_of_5 = {"linear_attention", "mlp", "linear_attention", "linear_attention",
                           "full_attention",   "mlp", "linear_attention", "moe"};
  const Json older = {"mamba", "mlp", "mamba", "mamba", "attention", "mlp", "mamba", "moe"};
  for (const Json& types : {types_of_5, older})
    EXPECT_EQ(of({{"layers_block_type", types}, {"hybrid_override_pattern", "*"}}), mixture);
  const LlamaSpec dense = of({{"hybrid_override_pattern", "M-*-"}, {"n_groups", 1}});
  EXPECT_EQ(dense.n_experts, 0);
  EXPECT_EQ(dense.router, Router{});
  EXPECT_FALSE(dense.mamba.norm_by_group);
  EXPECT_TRUE(dense.layers_without_mlp.empty());
  EXPECT_FALSE(of({{"hybrid_override_pattern", "*-*"}}).has_mamba());
  const std::pair<Json, const char*> refused[] = {
      {{{"hybrid_override_pattern", "-M"}}, "has an MLP at layer 0, which does not follow"},
      {{{"hybrid_override_pattern", "ME-"}}, "has an MLP at layer 2"},
      {{{"hybrid_override_pattern", "M-E"}}, "has experts at layer 2"},
      {{{"hybrid_override_pattern", "M|"}}, "has '|' at layer 1"},
      {{{"hybrid_override_pattern", ""}}, "is empty"},
      {{{"layers_block_type", {"mamba", "conv"}}}, "names \"conv\""},
      {{{"num_hidden_layers", 5}}, "another length"},
      {{{"moe_latent_size", 32}}, "'moe_latent_size' is 32"},
      {{{"n_shared_experts", 2}}, "which transformers ignores"},
      {{{"moe_shared_expert_intermediate_size", 0}}, "must be positive"},
      {{{"mlp_bias", true}}, "'mlp_bias' is true"},
      {{{"tie_word_embeddings", true}}, "which transformers ignores in this class"},
      {{{"mlp_hidden_act", "silu"}}, "supported values: \"relu2\""},
      {{{"mamba_hidden_act", "relu"}}, "'mamba_hidden_act'"},
      {{{"time_step_limit", {0.001, 0.1}}}, "which versions of transformers ignore"},
      {{{"architectures", {"LlamaForCausalLM"}}, {"num_hidden_layers", 2}, {"hidden_act", "relu2"}},
       "'hidden_act' is \"relu2\""}};
  for (const auto& [patch, message] : refused)
    EXPECT_THAT(error_of([&, patch = patch] { of(patch); }), HasSubstr(message)) << patch;
}

TEST_F(HuggingFace, ReadsInfiniteNumbersOfPython) {
  config({{"architectures", {"NemotronHForCausalLM"}},
          {"num_hidden_layers", nullptr},
          {"num_key_value_heads", 2},
          {"hybrid_override_pattern", "M-"}});
  std::string text = read_file(folder_ / "config.json");
  text.insert(1, "\"time_step_limit\": [0.0, Infinity], \"note\": \"Infinity\",");
  write_file(folder_ / "config.json", text);
  EXPECT_EQ(read_hugging_face_model(folder_).llama.n_layers, 1);
  EXPECT_FALSE(config_of_checkpoint(folder_).contains("time_step_limit"));
}

TEST_F(HuggingFace, ReadsTheRotationsOfPhi3AndMinistral3) {
  const auto phi3 = [&](Json patch) {
    patch.update({{"architectures", {"Phi3ForCausalLM"}}, {"num_key_value_heads", 2}});
    return config(patch);
  };
  EXPECT_EQ(phi3({{"partial_rotary_factor", 0.75}}).rotary_size(), 12);
  for (const char* name : {"longrope", "su"}) {
    const LlamaSpec longer = phi3({{"max_position_embeddings", 131072},
                                   {"rope_scaling",
                                    {{"type", name},
                                     {"short_factor", {1, 1, 1, 1, 1, 1, 1, 1.5}},
                                     {"long_factor", {1, 2, 3, 4, 5, 6, 7, 8}}}}});
    EXPECT_EQ(longer.rope_scaling.type, RopeType::longrope);
    EXPECT_EQ(longer.rope_scaling.factor, 32);
    EXPECT_EQ(longer.rope_scaling.original_max_position, 4096);
    EXPECT_EQ(longer.rope_scaling.long_factor.back(), 8);
    EXPECT_EQ(longer.rope_scaling.short_factor.back(), 1.5);
  }
  EXPECT_THAT(
      error_of([&] {
        phi3({{"rope_scaling", {{"type", "longrope"}, {"short_factor", {1}}, {"long_factor", {1, 2}}}}});
      }),
      HasSubstr("give each 8 numbers"));
  EXPECT_THAT(error_of([&] {
                phi3({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}});
              }),
              HasSubstr("\"linear\", which is not supported by Phi3ForCausalLM"));
  EXPECT_THAT(error_of([&] { phi3({{"resid_pdrop", 0.1}}); }), HasSubstr("'resid_pdrop' is 0.1"));
  EXPECT_THAT(error_of([&] {
                config({{"partial_rotary_factor", 0.5}});
              }),
              HasSubstr("rotates the whole head"));

  const Json yarn = {{"rope_type", "yarn"},
                     {"rope_theta", 1e6},
                     {"factor", 16.0},
                     {"original_max_position_embeddings", 16384},
                     {"max_position_embeddings", 262144},
                     {"mscale", 1.0},
                     {"mscale_all_dim", 1.0},
                     {"llama_4_scaling_beta", 0.1}};
  const LlamaSpec ministral = config(
      {{"architectures", {"Ministral3ForCausalLM"}}, {"num_key_value_heads", 2}, {"rope_parameters", yarn}});
  EXPECT_EQ(ministral.rope_scaling.query_beta, 0.1);
  EXPECT_EQ(ministral.rope_scaling.attention_factor, 1);
  EXPECT_EQ(ministral.rope_scaling.score_mscale, 0) << "only DeepSeek V3 scales the scores";
  EXPECT_EQ(ministral.head_size(), 128);
  EXPECT_THAT(error_of([&] { config({{"rope_parameters", yarn}}); }), HasSubstr("does not scale queries"));
}

/// transformers 5 writes "num_local_experts" for Qwen 3, which 4 does not read.
TEST_F(HuggingFace, ReadsBothNamesOfTheNumberOfExperts) {
  for (const char* architecture :
       {"MixtralForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM", "OlmoeForCausalLM"})
    for (const char* name : {"num_experts", "num_local_experts"}) {
      SCOPED_TRACE(std::string(architecture) + " " + name);
      EXPECT_EQ(config({{"architectures", {architecture}}, {"num_key_value_heads", 4}, {name, 24}}).n_experts,
                24);
      const Json written = config_of_checkpoint(folder_);
      EXPECT_EQ(written.at("num_experts"), 24);
      EXPECT_EQ(written.at("num_local_experts"), 24);
    }
}

TEST_F(HuggingFace, ExpertNamesFollowTheClass) {
  const std::pair<const char*, const char*> names[] = {
      {"model.layers.0.mlp.gate.weight", "model.layers.0.block_sparse_moe.gate.weight"},
      {"model.layers.0.mlp.experts.3.gate_proj.weight",
       "model.layers.0.block_sparse_moe.experts.3.w1.weight"},
      {"model.layers.0.mlp.experts.3.up_proj.weight", "model.layers.0.block_sparse_moe.experts.3.w3.weight"},
      {"model.layers.0.mlp.experts.3.down_proj.weight",
       "model.layers.0.block_sparse_moe.experts.3.w2.weight"},
      {"model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.q_proj.weight"},
      {"model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.gate_proj.weight"}};
  for (const auto& [ours, theirs] : names) {
    EXPECT_EQ(stored_name(ours, ParameterNames::mixtral), theirs);
    EXPECT_EQ(parameter_name(theirs), ours);
    EXPECT_EQ(stored_name(ours, ParameterNames::common), ours);
  }
  const std::pair<const char*, const char*> of_nemotron[] = {
      {"model.embed_tokens.weight", "backbone.embeddings.weight"},
      {"model.norm.weight", "backbone.norm_f.weight"},
      {"lm_head.weight", "lm_head.weight"},
      {"model.layers.3.mixer.shared_expert.up_proj.weight",
       "backbone.layers.3.mixer.shared_experts.up_proj.weight"},
      {"model.layers.3.mixer.norm.weight", "backbone.layers.3.mixer.norm.weight"},
      {"model.layers.3.norm.weight", "backbone.layers.3.norm.weight"}};
  for (const auto& [ours, theirs] : of_nemotron) {
    EXPECT_EQ(stored_name(ours, ParameterNames::nemotron_h), theirs);
    EXPECT_EQ(parameter_name(theirs), ours);
  }
  EXPECT_EQ(parameter_name("embeddings.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(parameter_name("model.norm_f.weight"), "model.norm.weight");
}
}  // namespace
}  // namespace optrush
