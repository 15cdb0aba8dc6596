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

TEST_F(HuggingFace, WritesTheTypeUnderBothNames) {
  config({{"dtype", "bfloat16"}, {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7.0}}}});
  const Json written = with_dtype(config_of_checkpoint(folder_), "fp32");
  EXPECT_EQ(written["dtype"], "float32");
  EXPECT_EQ(written["torch_dtype"], "float32");
  EXPECT_EQ(written["rope_theta"], 7.0);
  EXPECT_TRUE(written.at("rope_scaling").is_null());
  EXPECT_EQ(written["model_type"], "llama");
  EXPECT_EQ(written["vocab_size"], 97) << "other fields are kept";
}

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
  EXPECT_THAT(refused({{"time_step_limit", {0.001, 0.1}}}), HasSubstr("which transformers 4 ignores"));
  EXPECT_THAT(refused({{"mamba_d_head", 20}}), HasSubstr("'mamba_d_head' is 20"));
  EXPECT_THAT(refused({{"hidden_act", "gelu"}}), HasSubstr("which the short convolution does not support"));
  EXPECT_THAT(refused({{"head_dim", 24}}), HasSubstr("divides hidden_size among the heads"));
  EXPECT_THAT(refused({{"output_router_logits", true}}), HasSubstr("load-balancing loss"));
  EXPECT_THAT(refused({{"architectures", {"NemotronHForCausalLM"}}, {"model_type", nullptr}}),
              HasSubstr("its layers has one mixer or an MLP"));
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
}

TEST_F(HuggingFace, WritesTheFirstClassThatHasTheChoices) {
  const std::vector<std::pair<LlamaSpec, std::string>> cases = {
      {{}, "LlamaForCausalLM"},
      {{.attention_bias = AttentionBias::all}, "LlamaForCausalLM"},
      {{.rope_scaling = {.type = RopeType::yarn, .factor = 4, .low_freq_factor = 2}}, "LlamaForCausalLM"},
      {{.window = 16}, "MistralForCausalLM"},
      {{.attention_bias = AttentionBias::qkv}, "Qwen2ForCausalLM"},
      {{.attention_bias = AttentionBias::qkv, .window = 16, .full_attention_layers = {0, 2}},
       "Qwen2ForCausalLM"},
      {{.qk_norm = QkNorm::per_head}, "Qwen3ForCausalLM"},
      {{.norm = NormKind::layernorm_without_parameters}, "OlmoForCausalLM"},
      {{.norm_placement = NormPlacement::after, .qk_norm = QkNorm::whole}, "Olmo2ForCausalLM"},
      {{.norm_placement = NormPlacement::after, .qk_norm = QkNorm::whole, .window = 8}, "Olmo3ForCausalLM"},
      {{.layers_without_rope = {1}}, "SmolLM3ForCausalLM"},
      {{.activation = Activation::gelu}, "LlamaForCausalLM"},
      {{.activation = Activation::gelu_tanh, .embedding_scale = 16}, "GemmaForCausalLM"},
      {{.activation = Activation::gelu_tanh,
        .norm_placement = NormPlacement::both,
        .attention_scale = 0.3,
        .embedding_scale = 16,
        .attention_soft_cap = 50,
        .logits_soft_cap = 30,
        .window = 16,
        .full_attention_layers = {1, 3}},
       "Gemma2ForCausalLM"},
      {{.activation = Activation::gelu_tanh,
        .norm_placement = NormPlacement::both,
        .qk_norm = QkNorm::per_head,
        .attention_scale = 0.3,
        .embedding_scale = 16,
        .rope_scaling = {.type = RopeType::linear, .factor = 8},
        .window = 16,
        .full_attention_layers = {3},
        .window_rope_theta = 500},
       "Gemma3ForCausalLM"},
      {{.norm_placement = NormPlacement::after,
        .qk_norm = QkNorm::whole,
        .rope_scaling = {.type = RopeType::yarn, .factor = 2},
        .window = 8,
        .window_rope_theta = 10000},
       "Olmo3ForCausalLM"},
      {{.attention_scale = 0.1, .embedding_scale = 12, .residual_scale = 0.22, .logits_divisor = 7},
       "GraniteForCausalLM"},
      {{.n_experts = 8, .expert_ffn_dim = 688}, "MixtralForCausalLM"},
      {{.attention_bias = AttentionBias::qkv,
        .n_experts = 8,
        .expert_ffn_dim = 96,
        .shared_expert_ffn_dim = 40,
        .dense_layers = {1}},
       "Qwen2MoeForCausalLM"},
      {{.qk_norm = QkNorm::per_head, .n_experts = 8, .expert_ffn_dim = 96, .dense_layers = {0, 3}},
       "Qwen3MoeForCausalLM"},
      {{.qk_norm = QkNorm::whole, .n_experts = 8, .expert_ffn_dim = 0, .normalize_router = false},
       "OlmoeForCausalLM"},
      {{.rotary_fraction = 0.5}, "Phi3ForCausalLM"},
      {{.rope_scaling = {.type = RopeType::longrope,
                         .factor = 8,
                         .original_max_position = 16,
                         .short_factor = std::vector<double>(16, 1),
                         .long_factor = std::vector<double>(16, 3)}},
       "Phi3ForCausalLM"},
      {{.rope_scaling = {.type = RopeType::yarn, .factor = 4, .query_beta = 0.2}}, "Ministral3ForCausalLM"},
      {{.rotary_fraction = 0.25,
        .n_experts = 8,
        .expert_ffn_dim = 96,
        .shared_expert_ffn_dim = 192,
        .shared_expert_gate = false,
        .router = {RouterScores::sigmoid, RouterBias::choice, 2, 1, 1.5},
        .dense_layers = {0}},
       "Glm4MoeForCausalLM"},
      {{.n_kv_heads = 8,
        .head_dim = 24,
        .latent = {.kv_rank = 40, .q_rank = 0, .rope_dim = 8, .value_dim = 12},
        .rope_scaling = {.type = RopeType::yarn, .factor = 4, .score_mscale = 0.7},
        .n_experts = 8,
        .expert_ffn_dim = 96,
        .shared_expert_ffn_dim = 96,
        .shared_expert_gate = false,
        .router = {RouterScores::sigmoid, RouterBias::choice, 1, 1, 2.5},
        .dense_layers = {0, 1}},
       "DeepseekV3ForCausalLM"},
      {{.activation = Activation::clamped_silu,
        .attention_bias = AttentionBias::all,
        .attention_sinks = true,
        .window = 8,
        .full_attention_layers = {1, 3},
        .n_experts = 4,
        .expert_bias = true,
        .router = {.bias = RouterBias::logits}},
       "GptOssForCausalLM"},
      {{.qk_norm = QkNorm::per_head,
        .attention_gate = true,
        .delta_net = {.key_heads = 2, .value_heads = 6, .key_dim = 8, .value_dim = 12, .kernel = 3},
        .rotary_fraction = 0.5,
        .full_attention_layers = {1, 3}},
       "Qwen3_5ForCausalLM"},
      {{.qk_norm = QkNorm::per_head,
        .attention_gate = true,
        .delta_net = {.key_heads = 2, .value_heads = 2, .joined = true},
        .rotary_fraction = 0.5,
        .full_attention_layers = {3},
        .n_experts = 4,
        .expert_ffn_dim = 40,
        .shared_expert_ffn_dim = 24,
        .dense_layers = {0}},
       "Qwen3NextForCausalLM"},
      {{.ffn_dim = 40,
        .qk_norm = QkNorm::per_head,
        .attention_gate = true,
        .delta_net = {.key_heads = 2, .value_heads = 2},
        .rotary_fraction = 0.5,
        .full_attention_layers = {3},
        .n_experts = 4,
        .expert_ffn_dim = 40,
        .shared_expert_ffn_dim = 24},
       "Qwen3_5MoeForCausalLM"},
      {{.attention_scale = 0.1,
        .embedding_scale = 12,
        .logits_divisor = 6,
        .mamba = {.heads = 16, .head_dim = 32, .state = 24, .kernel = 3, .projection_bias = true},
        .position = PositionKind::none,
        .full_attention_layers = {2}},
       "GraniteMoeHybridForCausalLM"},
      {{.attention_bias = AttentionBias::all,
        .attention_scale = 0.25,
        .mamba = {.heads = 8, .convolution_bias = false},
        .n_experts = 6,
        .experts_per_token = 3,
        .shared_expert_ffn_dim = 96,
        .shared_expert_gate = false},
       "GraniteMoeHybridForCausalLM"},
      {{.attention_scale = 0.1,
        .residual_scale = 0.2,
        .n_experts = 4,
        .expert_ffn_dim = 688,
        .shared_expert_ffn_dim = 40,
        .shared_expert_gate = false},
       "GraniteMoeHybridForCausalLM"},
  };
  for (const auto& [spec, name] : cases) {
    const Json config = hugging_face_config(spec, 64);
    EXPECT_EQ(config["architectures"][0], name);
    write_json(folder_ / "config.json", config);
    LlamaSpec expected = spec;
    expected.head_dim = spec.head_size();
    if (spec.rope_scaling.factor != 1) expected.rope_scaling.low_freq_factor = 1;  // only llama3 has it
    if (expected.expert_ffn_dim == expected.ffn_dim && !name.starts_with("Qwen"))
      expected.expert_ffn_dim = 0;  // the class has one width
    EXPECT_EQ(read_hugging_face_model(folder_).llama, expected) << config;
  }
}

TEST_F(HuggingFace, WarnsIfNoClassCanHoldTheState) {
  RunSpec spec;
  spec.model = {{"norm", "layernorm"}};
  EXPECT_EQ(unwritable(spec), std::nullopt) << "the run saves no state";
  spec.save.every = 2;
  EXPECT_THAT(unwritable(spec).value_or(""),
              AllOf(HasSubstr("the nearest are"), HasSubstr("norm = "), HasSubstr("adapter")));
  spec.model["norm"] = "layernorm_without_parameters";
  EXPECT_EQ(unwritable(spec), std::nullopt);
}

TEST_F(HuggingFace, UnsupportedChoicesNameTheNearestClasses) {
  LlamaSpec spec{.norm = NormKind::layernorm_without_parameters, .norm_eps = 1e-6};
  const auto refusal = [&] { return error_of([&] { hugging_face_config(spec, 64); }); };
  EXPECT_THAT(refusal(), AllOf(HasSubstr("LlamaForCausalLM with norm = \"rmsnorm\""),
                               HasSubstr("OlmoForCausalLM with norm_eps = 1e-05")));
  spec = {.position = PositionKind::alibi};
  EXPECT_THAT(refusal(), HasSubstr("LlamaForCausalLM with position = \"rope\""));
  spec = {.norm_placement = NormPlacement::after};
  EXPECT_THAT(refusal(), HasSubstr("Olmo2ForCausalLM with qk_norm = \"whole\""));
}
}  // namespace
}  // namespace optrush
