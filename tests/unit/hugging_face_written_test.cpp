// The config.json that is written: the class that a model fits, its names, and refusals.
#include <gmock/gmock.h>

#include "../support/error_of.h"
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
      {{.activation = Activation::gelu_tanh,
        .norm_placement = NormPlacement::both,
        .qk_norm = QkNorm::per_head,
        .value_norm = true,
        .layer_scale = true,
        .attention_scale = 1,
        .embedding_scale = 16,
        .logits_soft_cap = 30,
        .rope_scaling = {.type = RopeType::proportional, .fraction = 0.25},
        .window = 16,
        .full_attention_layers = {1, 3},
        .full_attention = {.head_dim = 64, .kv_heads = 2, .keys_as_values = true},
        .window_rope_theta = 500},
       "Gemma4ForCausalLM"},
      {{.activation = Activation::gelu_tanh,
        .norm_placement = NormPlacement::both,
        .qk_norm = QkNorm::per_head,
        .value_norm = true,
        .layer_scale = true,
        .attention_scale = 1,
        .embedding_scale = 16,
        .window = 16,
        .full_attention_layers = {3},
        .full_attention = {.head_dim = 64},
        .window_rope_theta = 500,
        .n_experts = 4,
        .expert_ffn_dim = 40,
        .experts_beside_mlp = true},
       "Gemma4ForCausalLM"},
      {{.double_wide_mlp = true,
        .activation = Activation::gelu_tanh,
        .norm_placement = NormPlacement::both,
        .qk_norm = QkNorm::per_head,
        .value_norm = true,
        .layer_scale = true,
        .attention_scale = 1,
        .embedding_scale = 16,
        .window = 16,
        .full_attention_layers = {1, 3},
        .full_attention = {.head_dim = 64},
        .kv_shared_layers = 2,
        .per_layer_input_dim = 8,
        .per_layer_vocab_size = 300,
        .window_rope_theta = 500},
       "Gemma4ForCausalLM"},
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
      {{.activation = Activation::relu2,
        .mamba = {.heads = 8, .groups = 2, .head_dim = 16, .norm_by_group = true, .min_step = 0.001},
        .position = PositionKind::none,
        .full_attention_layers = {2},
        .layers_without_mlp = {1},
        .tie_embeddings = false},
       "NemotronHForCausalLM"},
      {{.activation = Activation::relu2,
        .mamba = {.heads = 8, .projection_bias = true},
        .position = PositionKind::none,
        .full_attention_layers = {0, 3},
        .n_experts = 4,
        .expert_ffn_dim = 40,
        .shared_expert_ffn_dim = 24,
        .shared_expert_gate = false,
        .router = {RouterScores::sigmoid, RouterBias::choice, 2, 1, 2.5},
        .dense_layers = {1},
        .layers_without_mlp = {0, 2},
        .tie_embeddings = false},
       "NemotronHForCausalLM"},
      {{.activation = Activation::relu2, .position = PositionKind::none, .tie_embeddings = false},
       "NemotronHForCausalLM"},
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
  spec = {.activation = Activation::relu2};
  EXPECT_THAT(refusal(), HasSubstr("NemotronHForCausalLM with position = \"none\""));
  spec = {.norm_placement = NormPlacement::after};
  EXPECT_THAT(refusal(), HasSubstr("Olmo2ForCausalLM with qk_norm = \"whole\""));
}
}  // namespace
}  // namespace optrush
