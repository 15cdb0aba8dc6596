// Reading config.json.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "../support/error_of.h"
#include "checkpoint/check_checkpoint.h"
#include "checkpoint/written_config.h"
#include "hugging_face_fixture.h"
#include "model/rotary.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using optrush::testing::error_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(HuggingFace, DefaultsMatchTheConfigClasses) {
  const LlamaSpec llama = config();
  EXPECT_EQ(llama.vocab_size, 97);
  EXPECT_EQ(llama.dim, 64);
  EXPECT_EQ(llama.n_layers, 2);
  EXPECT_EQ(llama.n_heads, 4);
  EXPECT_EQ(llama.n_kv_heads, 4);
  EXPECT_EQ(llama.head_size(), 16);
  EXPECT_EQ(llama.ffn_dim, 113);
  EXPECT_EQ(llama.norm, NormKind::rmsnorm);
  EXPECT_EQ(llama.norm_eps, 1e-6);
  EXPECT_EQ(llama.rope_theta, 10000);
  EXPECT_EQ(llama.rope_scaling, RopeScaling{});
  EXPECT_FALSE(llama.tie_embeddings);
  const LlamaSpec olmo = config({{"architectures", {"OlmoForCausalLM"}}, {"rms_norm_eps", 1e-3}});
  EXPECT_EQ(olmo.norm, NormKind::layernorm_without_parameters);
  EXPECT_EQ(olmo.norm_eps, 1e-5);
  const LlamaSpec mistral = read_hugging_face_model(mistral_folder({{"num_attention_heads", 16}})).llama;
  EXPECT_EQ(mistral.norm, NormKind::rmsnorm);
  EXPECT_EQ(mistral.n_kv_heads, 8);
  EXPECT_EQ(mistral.rope_theta, 10000);
  // Null means as many as heads. It is not the same as a missing field.
  const Json none = {{"num_attention_heads", 16}, {"num_key_value_heads", nullptr}};
  EXPECT_EQ(read_hugging_face_model(mistral_folder(none)).llama.n_kv_heads, 16);
}

TEST_F(HuggingFace, RecognizesModelsByClassOrType) {
  const auto kind = [&](const Json& patch) { return model(patch).architecture; };
  EXPECT_EQ(kind(Json::object()), "LlamaForCausalLM");
  EXPECT_EQ(kind({{"architectures", nullptr}, {"model_type", "llama"}}), "LlamaForCausalLM");
  EXPECT_EQ(kind({{"architectures", Json::array()}, {"model_type", "olmo"}}), "OlmoForCausalLM");
  EXPECT_EQ(kind({{"architectures", {"LlamaModel"}}}), "LlamaForCausalLM");
  EXPECT_EQ(model().max_positions, 2048);
  EXPECT_EQ(model({{"max_position_embeddings", 77}}).max_positions, 77);
}

TEST_F(HuggingFace, UnsupportedModelNamesTheReasonAndAlternatives) {
  const auto refusal = [&](const Json& patch) { return error_of([&] { config(patch); }); };
  const std::string moe = refusal({{"architectures", {"PhimoeForCausalLM"}}, {"num_key_value_heads", 2}});
  EXPECT_THAT(moe, AllOf(HasSubstr("names 'PhimoeForCausalLM'"), HasSubstr("its router and its norms differ"),
                         HasSubstr("MistralForCausalLM"), ::testing::Not(HasSubstr("did you mean")),
                         HasSubstr("rush.llama { vocab_size = 97, dim = 64, n_layers = 2, n_heads = 4, "
                                   "n_kv_heads = 2, ffn_dim = 113 }")));
  EXPECT_THAT(refusal({{"architectures", {"PhimoeForCausalLM"}}, {"hidden_size", "wide"}}),
              ::testing::Not(HasSubstr("rush.llama")));
  EXPECT_THAT(refusal({{"architectures", {"LLaMAForCausalLM"}}}),
              HasSubstr("did you mean 'LlamaForCausalLM'?"));
  EXPECT_THAT(refusal({{"architectures", nullptr}}),
              HasSubstr("'architectures' and 'model_type' are missing"));
  EXPECT_THAT(refusal({{"architectures", nullptr}, {"model_type", "phimoe"}}),
              AllOf(HasSubstr("'model_type' is 'phimoe'"), HasSubstr("llama, mistral, ministral3")));
  EXPECT_THAT(refusal({{"model_type", "mistral"}}), HasSubstr("'model_type' is 'mistral'"));
  EXPECT_THAT(refusal({{"architectures", {"LlamaForCausalLM", "X"}}}), HasSubstr("'architectures'"));
}

/// The config.json of a model with an image encoder.
Json beside_images(Json text, const Json& whole = Json::object()) {
  const Json sizes = {{"vocab_size", 97},         {"hidden_size", 64},        {"num_hidden_layers", 2},
                      {"num_attention_heads", 4}, {"intermediate_size", 113}, {"num_key_value_heads", 2}};
  text.update(sizes);
  Json config = {{"architectures", {"SeesForConditionalGeneration"}},
                 {"model_type", "sees"},
                 {"vision_config", {{"hidden_size", 32}}},
                 {"text_config", text}};
  config.update(whole);
  return config;
}

TEST_F(HuggingFace, ReadsTheTextModelBesideEncoders) {
  const auto read = [&](const Json& text, const Json& whole = Json::object()) {
    write_json(folder_ / "config.json", beside_images(text, whole));
    return read_hugging_face_model(folder_);
  };
  const Json qwen = {{"model_type", "qwen3_vl_text"},
                     {"rope_scaling", {{"mrope_section", {4, 2, 2}}, {"rope_type", "default"}}}};
  shard("model.safetensors", {"model.language_model.embed_tokens.weight", "model.visual.norm.weight"});
  const HuggingFaceModel model = read(qwen, {{"tie_word_embeddings", true}});
  EXPECT_EQ(model.architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(model.whole, "SeesForConditionalGeneration");
  EXPECT_EQ(model.llama.dim, 64);
  EXPECT_TRUE(model.llama.tie_embeddings);
  EXPECT_EQ(read({{"model_type", "gemma3_text"}}).architecture, "Gemma3ForCausalLM");
  const auto refusal = [&](const Json& text, const Json& whole = Json::object()) {
    return error_of([&] { read(text, whole); });
  };
  // Versions of transformers read different fields. The files decide.
  const auto ties = [&](bool inside) {
    return read({{"model_type", "mistral"}, {"tie_word_embeddings", inside}},
                {{"tie_word_embeddings", !inside}})
        .llama.tie_embeddings;
  };
  EXPECT_TRUE(ties(true) && ties(false));
  shard("model.safetensors", {"model.language_model.embed_tokens.weight", "lm_head.weight"});
  EXPECT_FALSE(ties(true) || ties(false));
  EXPECT_THAT(refusal({{"model_type", "phimoe"}}),
              AllOf(HasSubstr("config.json: text_config"), HasSubstr("'model_type' is 'phimoe'")));
  EXPECT_THAT(refusal(Json::object()), HasSubstr("'model_type' are missing"));
  EXPECT_THAT(refusal({{"model_type", "llama"}, {"quantization_config", {{"quant_method", "fp8"}}}}),
              HasSubstr("'quantization_config'"));
}

TEST_F(HuggingFace, LimitIsRefusedOnlyIfItMatters) {
  const auto run = [&](int64_t length) {
    RunSpec spec;
    spec.model = {{"checkpoint", folder_.string()}};
    spec.train.seq_len = length;
    return error_of([&] { check_sequence_length(spec, "x.lua:3"); });
  };
  config({{"architectures", {"MistralForCausalLM"}}, {"num_key_value_heads", 4}, {"sliding_window", 128}});
  EXPECT_EQ(run(1 << 20), "") << "a window does not limit the sequence length";
  config({{"sliding_window", 16}});  // the class Llama has no such field
  EXPECT_EQ(run(1 << 20), "");
  config({{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}, {"max_position_embeddings", 64}});
  EXPECT_EQ(run(64), "");
  EXPECT_THAT(run(65), HasSubstr("dynamic"));
}

TEST_F(HuggingFace, WarnsOfPositionsThatTheCheckpointWasNotTrainedOn) {
  model({{"max_position_embeddings", 32}});
  RunSpec spec;
  spec.model = {{"checkpoint", folder_.string()}};
  spec.train.seq_len = 32;
  EXPECT_THAT(warnings_of_checkpoint(spec), IsEmpty());
  spec.train.seq_len = 33;
  EXPECT_THAT(warnings_of_checkpoint(spec),
              ElementsAre(AllOf(HasSubstr("train.seq_len is 33"),
                                HasSubstr("32 positions (max_position_embeddings)"))));
  spec.model = Json::object();
  EXPECT_THAT(warnings_of_checkpoint(spec), IsEmpty());
}

TEST_F(HuggingFace, ReadsEverySpellingOfRotarySettings) {
  const Json llama3 = {
      {"rope_type", "llama3"}, {"factor", 32}, {"low_freq_factor", 1}, {"high_freq_factor", 4.0}};
  const auto with = [](Json table, const Json& more) {
    table.update(more);
    return table;
  };
  const Json original = {{"original_max_position_embeddings", 8192}}, theta = {{"rope_theta", 500000}};
  struct Case {
    Json patch;
    double theta;
    RopeScaling scaling;
  };
  const RopeScaling none,
      scaled{.factor = 32, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_position = 8192},
      linear{.type = RopeType::linear, .factor = 4};
  const std::vector<Case> cases = {
      {Json::object(), 10000, none},
      {theta, 500000, none},
      {{{"rope_parameters", with(theta, {{"rope_type", "default"}})}}, 500000, none},
      {{{"rope_parameters", {{"rope_type", "default"}}}, {"rope_theta", 500000}}, 500000, none},
      {{{"rope_scaling", with(theta, {{"rope_type", "default"}})}}, 500000, none},
      {{{"rope_scaling", Json::object()}}, 10000, none},
      {{{"rope_scaling", {{"rope_type", "default"}, {"factor", 2.0}}}}, 10000, none},
      {{{"rope_parameters", with(theta, {{"partial_rotary_factor", 1.0}})}, {"rope_theta", 500000.0}},
       500000,
       none},
      {{{"rope_scaling", with(llama3, original)}, {"rope_theta", 500000.0}}, 500000, scaled},
      {with({{"rope_scaling", llama3}}, original), 10000, scaled},
      {{{"rope_parameters", with(with(llama3, original), theta)}}, 500000, scaled},
      {with({{"rope_parameters", with(llama3, theta)}}, original), 500000, scaled},
      {with({{"rope_parameters", with(with(llama3, original), theta)}}, original), 500000, scaled},
      {{{"rope_scaling", with(llama3, original)}, {"rope_parameters", with(with(llama3, original), theta)}},
       500000,
       scaled},
      {{{"rope_parameters", llama3}, {"max_position_embeddings", 8192}}, 10000, scaled},
      {{{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}}, 10000, linear},
      {{{"rope_scaling", {{"type", "linear"}, {"rope_type", "linear"}, {"factor", 4}}}}, 10000, linear},
      {{{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 4.0}}}}, 10000, none},
      {{{"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}}},
       10000,
       {.type = RopeType::yarn, .factor = 4, .original_max_position = 2048}},
      {{{"rope_parameters",
         {{"rope_type", "yarn"},
          {"rope_theta", 1e6},
          {"factor", 2},
          {"original_max_position_embeddings", 512},
          {"beta_fast", 24},
          {"beta_slow", 2},
          {"attention_factor", 1.25},
          {"truncate", false}}}},
       1e6,
       {.type = RopeType::yarn,
        .factor = 2,
        .original_max_position = 512,
        .beta_fast = 24,
        .beta_slow = 2,
        .attention_factor = 1.25,
        .truncate = false}},
      {{{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 1.0}, {"attention_factor", 1.5}}}},
       10000,
       {.type = RopeType::yarn, .factor = 1, .original_max_position = 2048, .attention_factor = 1.5}},
      {{{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 1.0}, {"mscale", 2.0}, {"mscale_all_dim", 1.0}}}},
       10000,
       none},
      {{{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}},
        {"original_max_position_embeddings", 2048}},
       10000,
       {.type = RopeType::yarn, .factor = 4, .original_max_position = 2048}},
  };
  for (const auto& [patch, theta, scaling] : cases) {
    const LlamaSpec llama = config(patch);
    EXPECT_EQ(llama.rope_theta, theta) << patch;
    EXPECT_EQ(llama.rope_scaling, scaling) << patch;
    // A configuration that is written and read again is equal. Fields have one spelling.
    const Json written = config_of_checkpoint(folder_);
    EXPECT_FALSE(written.contains("rope_parameters")) << patch;
    write_json(folder_ / "config.json", written);
    const LlamaSpec again = read_hugging_face_model(folder_).llama;
    EXPECT_EQ(again.rope_theta, theta) << written;
    EXPECT_EQ(again.rope_scaling, scaling) << written;
  }
}

TEST_F(HuggingFace, LinearScalingDividesEveryFrequency) {
  LlamaSpec spec;
  const Tensor plain = rotary_table(spec).frequencies;
  spec.rope_scaling = {.type = RopeType::linear, .factor = 4};
  EXPECT_TRUE(at::equal(rotary_table(spec).frequencies, plain / 4));
}

TEST_F(HuggingFace, InvalidRotarySettingsNameTheirPlace) {
  const Json llama3 = {
      {"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}};
  Json nested = llama3;
  nested["original_max_position_embeddings"] = 32;
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"rope_theta", 1e4}, {"rope_parameters", {{"rope_theta", 5e5}}}},
       "'rope_parameters.rope_theta' is 500000.0, but 'rope_theta' is 10000.0"},
      {{{"rope_scaling", nested}, {"original_max_position_embeddings", 64}},
       "'rope_scaling.original_max_position_embeddings' is 32, but 'original_max_position_embeddings' is 64"},
      {{{"rope_scaling", {{"type", "linear"}, {"rope_type", "llama3"}}}}, "rope_scaling.type"},
      {{{"rope_scaling", {{"rope_type", "yarn"}}}}, "'rope_scaling.factor' is missing"},
      {{{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}}, {"original_max_position_embeddings", 64}},
       "'original_max_position_embeddings' is 64 beside 'rope_scaling', where transformers 4 ignores it"},
      {{{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"attention_factor", 0}}}},
       "'rope_scaling.attention_factor' is 0"},
      {{{"rope_parameters", {{"rope_type", "longrope"}}}}, "'rope_parameters.rope_type' is \"longrope\""},
      {{{"rope_scaling", {{"type", "linear"}}}}, "'rope_scaling.factor' is missing"},
      {{{"rope_scaling", {{"type", "linear"}, {"factor", "4"}}}}, "'rope_scaling.factor'"},
      {{{"partial_rotary_factor", 0.5}}, "'partial_rotary_factor' is 0.5"},
      {{{"rope_parameters", {{"partial_rotary_factor", 0.5}}}},
       "'rope_parameters.partial_rotary_factor' is 0.5"},
      {{{"rope_parameters", {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 5e5}}}}}},
       "'rope_parameters.full_attention' is a table for one type of layer, which LlamaForCausalLM does not "
       "have"},
      {{{"architectures", {"Olmo3ForCausalLM"}},
        {"rope_parameters", {{"chunked_attention", {{"rope_type", "default"}}}}}},
       "'rope_parameters.chunked_attention'"},
      {{{"architectures", {"Olmo3ForCausalLM"}},
        {"rope_parameters", {{"full_attention", {{"mrope_section", {16, 24}}}}}}},
       "'rope_parameters.full_attention.mrope_section'"},
      {{{"architectures", {"Olmo3ForCausalLM"}},
        {"rope_parameters",
         {{"sliding_attention", {{"rope_type", "linear"}, {"rope_theta", 1e4}, {"factor", 2.0}}}}}},
       "rope_parameters.sliding_attention: 'rope_type' is \"linear\""},
      {{{"rope_scaling", {{"rope_type", "default"}, {"mrope_section", {16, 24}}}}},
       "'rope_scaling.mrope_section'"},
      {{{"rope_scaling", {{"rope_type", 3}}}}, "'rope_scaling.rope_type'"},
  };
  for (const auto& [patch, message] : cases)
    EXPECT_THAT(error_of([&, &patch = patch] { config(patch); }),
                AllOf(HasSubstr(message), HasSubstr("config.json")))
        << patch;
}

TEST_F(HuggingFace, RefusesSettingsThatNeedAnotherModel) {
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"architectures", {"MistralForCausalLM"}}, {"num_key_value_heads", 4}, {"attention_bias", true}},
       "'attention_bias' is true"},
      {{{"architectures", {"SmolLM3ForCausalLM"}}, {"mlp_bias", true}}, "'mlp_bias' is true"},
      {{{"architectures", {"OlmoeForCausalLM"}}, {"num_experts", 4}, {"output_router_logits", true}},
       "the load-balancing loss of the router"},
      {{{"architectures", {"Qwen2MoeForCausalLM"}}, {"num_experts", 4}, {"use_sliding_window", true}},
       "'use_sliding_window' is true, but the layers with a window"},
      {{{"architectures", {"OlmoeForCausalLM"}}, {"num_experts", 4}}, "(8) is above model.n_experts (4)"},
      {{{"architectures", {"MixtralForCausalLM"}}, {"num_key_value_heads", 4}}, "'num_experts' is missing"},
      {{{"architectures", {"OlmoeForCausalLM"}}, {"num_experts", 16}, {"num_local_experts", 8}},
       "'num_experts' is 16, but 'num_local_experts' is 8"},
      {{{"architectures", {"SmolLM3ForCausalLM"}}, {"no_rope_layers", {1}}}, "'no_rope_layers' is [1]"},
      {{{"architectures", {"SmolLM3ForCausalLM"}}, {"no_rope_layer_interval", 0}},
       "'no_rope_layer_interval' is 0"},
      {{{"architectures", {"Qwen2ForCausalLM"}},
        {"num_key_value_heads", 4},
        {"use_sliding_window", true},
        {"layer_types", {"full_attention"}}},
       "one type for each of the 2 layers"},
      {{{"architectures", {"Qwen3ForCausalLM"}},
        {"num_key_value_heads", 4},
        {"layer_types", {"full_attention", "sliding_attention"}}},
       "names \"sliding_attention\", but the model has no window"},
      {{{"architectures", {"Olmo3ForCausalLM"}}, {"layer_types", {"full_attention", "linear_attention"}}},
       "'layer_types' names \"linear_attention\""},
      {{{"architectures", {"GemmaForCausalLM"}}, {"hidden_act", "gelu"}},
       "'hidden_act' is \"gelu\", which transformers 4 computes exactly and transformers 5 by tanh"},
      {{{"architectures", {"Gemma3ForCausalLM"}}, {"attn_logit_softcapping", 30.0}},
       "'attn_logit_softcapping' is 30.0, which this class ignores"},
      {{{"architectures", {"Gemma2ForCausalLM"}}, {"final_logit_softcapping", 0}},
       "'final_logit_softcapping' is 0"},
      {{{"architectures", {"Gemma2ForCausalLM"}}, {"attn_logit_softcapping", -1.5}},
       "'attn_logit_softcapping' is -1.5"},
      {{{"architectures", {"Gemma3ForCausalLM"}}, {"use_bidirectional_attention", true}},
       "this program trains causal models"},
      {{{"architectures", {"GemmaForCausalLM"}}, {"use_bidirectional_attention", true}},
       "this program trains causal models"},
      {{{"architectures", {"Gemma3ForCausalLM"}}, {"query_pre_attn_scalar", 0}},
       "'query_pre_attn_scalar' is 0"},
      {{{"architectures", {"Gemma3ForCausalLM"}}, {"sliding_window_pattern", 0}},
       "'sliding_window_pattern' is 0"},
      {{{"architectures", {"GraniteForCausalLM"}}, {"logits_scaling", 0.0}}, "model.logits_divisor is 0"},
      {{{"mlp_bias", true}}, "'mlp_bias' is true"},
      {{{"hidden_act", "relu"}}, "'hidden_act' is \"relu\""},
      {{{"clip_qkv", 8.0}}, "'clip_qkv' is 8.0"},
      {{{"attention_dropout", 0.1}}, "'attention_dropout' is 0.1"},
      {{{"quantization_config", {{"bits", 4}}}}, "'quantization_config' is"},
      {{{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 2.0}}}},
       "'rope_scaling.low_freq_factor' is missing"},
      {{{"rope_parameters", 3}}, "'rope_parameters' must be an object"},
      {{{"architectures", {"LlamaForSequenceClassification"}}}, "'LlamaForSequenceClassification'"},
      {{{"architectures", {"MistralForCausalLM"}}, {"num_key_value_heads", 4}, {"sliding_window", 0}},
       "'sliding_window' is 0"},
      {{{"hidden_size", nullptr}}, "'hidden_size' is missing"},
      {{{"hidden_size", "64"}}, "'hidden_size'"},
      {{{"num_key_value_heads", 3}}, "not a multiple"},
      {{{"head_dim", 7}}, "cannot be rotated"},
  };
  for (const auto& [patch, message] : cases)
    EXPECT_THAT(error_of([&, &patch = patch] { config(patch); }),
                AllOf(HasSubstr(message), HasSubstr("config.json")))
        << patch;
  EXPECT_NO_THROW(config({{"attention_bias", false}, {"attention_dropout", 0.0}, {"hidden_act", "silu"}}));
  fs::remove(folder_ / "config.json");
  EXPECT_THAT(error_of([&] { read_hugging_face_model(folder_); }), HasSubstr("config.json"));
}
}  // namespace
}  // namespace optrush
