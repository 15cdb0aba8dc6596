#include "model/hugging_face.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "checkpoint/check_checkpoint.h"
#include "checkpoint/written_config.h"
#include "io/safetensors.h"
#include "model/llama.h"
#include "model/rotary.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using optrush::testing::error_of;
using optrush::testing::is_error;
using ::testing::AllOf;
using ::testing::HasSubstr;

class HuggingFace : public ::testing::Test {
 protected:
  /// config.json of a small Llama, changed by `patch`: null takes a field away.
  HuggingFaceModel model(const Json& patch = Json::object()) const {
    Json json = {{"architectures", {"LlamaForCausalLM"}},
                 {"vocab_size", 97},
                 {"hidden_size", 64},
                 {"intermediate_size", 113},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4}};
    json.merge_patch(patch);
    write_json(folder_ / "config.json", json);
    return read_hugging_face_model(folder_);
  }
  LlamaSpec config(const Json& patch = Json::object()) const { return model(patch).llama; }
  /// As config(), of a Mistral that says that it has no window. A patch would take the null away.
  fs::path mistral_folder(const Json& patch) const {
    config(patch);
    Json json = read_json(folder_ / "config.json");
    json["architectures"] = {"MistralForCausalLM"};
    json["sliding_window"] = nullptr;
    if (patch.contains("num_key_value_heads")) json["num_key_value_heads"] = patch["num_key_value_heads"];
    write_json(folder_ / "config.json", json);
    return folder_;
  }
  static Param param(const std::string& name, std::vector<int64_t> shape) {
    return {.name = name, .shape = std::move(shape)};
  }
  void shard(const std::string& file, const std::vector<std::string>& names) const {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const auto& name : names)
      tensors.emplace_back(name, at::full({2, 3}, static_cast<double>(name.size())));
    write_safetensors(folder_ / file, tensors);
  }
  void index(const Json& weight_map) const {
    write_json(folder_ / "model.safetensors.index.json", {{"weight_map", weight_map}});
  }

  const optrush::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(HuggingFace, DefaultsAreThoseOfTheConfigClasses) {
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
  // Null is not missing: then there are as many as heads.
  const Json none = {{"num_attention_heads", 16}, {"num_key_value_heads", nullptr}};
  EXPECT_EQ(read_hugging_face_model(mistral_folder(none)).llama.n_kv_heads, 16);
}

TEST_F(HuggingFace, KnowsTheModelByItsClassOrItsType) {
  const auto kind = [&](const Json& patch) { return model(patch).architecture; };
  EXPECT_EQ(kind(Json::object()), "LlamaForCausalLM");
  EXPECT_EQ(kind({{"architectures", nullptr}, {"model_type", "llama"}}), "LlamaForCausalLM");
  EXPECT_EQ(kind({{"architectures", Json::array()}, {"model_type", "olmo"}}), "OlmoForCausalLM");
  EXPECT_EQ(kind({{"architectures", {"LlamaModel"}}}), "LlamaForCausalLM");
  EXPECT_EQ(model().max_positions, 2048);
  EXPECT_EQ(model({{"max_position_embeddings", 77}}).max_positions, 77);
}

TEST_F(HuggingFace, SaysWhyAModelDoesNotLoadAndWhatDoes) {
  const auto refusal = [&](const Json& patch) { return error_of([&] { config(patch); }); };
  const std::string moe = refusal({{"architectures", {"Phi3ForCausalLM"}}, {"num_key_value_heads", 2}});
  EXPECT_THAT(moe, AllOf(HasSubstr("names 'Phi3ForCausalLM'"), HasSubstr("fused matrices"),
                         HasSubstr("MistralForCausalLM"), ::testing::Not(HasSubstr("did you mean")),
                         HasSubstr("rush.llama { vocab_size = 97, dim = 64, n_layers = 2, n_heads = 4, "
                                   "n_kv_heads = 2, ffn_dim = 113 }")));
  EXPECT_THAT(refusal({{"architectures", {"Phi3ForCausalLM"}}, {"hidden_size", "wide"}}),
              ::testing::Not(HasSubstr("rush.llama")));
  EXPECT_THAT(refusal({{"architectures", {"LLaMAForCausalLM"}}}),
              HasSubstr("did you mean 'LlamaForCausalLM'?"));
  EXPECT_THAT(refusal({{"architectures", nullptr}}),
              HasSubstr("'architectures' and 'model_type' are missing"));
  EXPECT_THAT(refusal({{"architectures", nullptr}, {"model_type", "phi3"}}),
              AllOf(HasSubstr("'model_type' is 'phi3'"), HasSubstr("llama, mistral, qwen2")));
  EXPECT_THAT(refusal({{"model_type", "mistral"}}), HasSubstr("'model_type' is 'mistral'"));
  EXPECT_THAT(refusal({{"architectures", {"LlamaForCausalLM", "X"}}}), HasSubstr("'architectures'"));
}

TEST_F(HuggingFace, ALimitIsRefusedOnlyWhereItMatters) {
  const auto run = [&](int64_t length) {
    RunSpec spec;
    spec.model = {{"checkpoint", folder_.string()}};
    spec.train.seq_len = length;
    return error_of([&] { check_sequence_length(spec, "x.lua:3"); });
  };
  config({{"architectures", {"MistralForCausalLM"}}, {"num_key_value_heads", 4}, {"sliding_window", 128}});
  EXPECT_EQ(run(1 << 20), "") << "a window of attention is no limit";
  config({{"sliding_window", 16}});  // no field of a Llama
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
  EXPECT_EQ(untrained_positions(spec), std::nullopt);
  spec.train.seq_len = 33;
  EXPECT_THAT(untrained_positions(spec).value_or(""),
              AllOf(HasSubstr("train.seq_len is 33"), HasSubstr("32 positions (max_position_embeddings)")));
  spec.model = Json::object();
  EXPECT_EQ(untrained_positions(spec), std::nullopt);
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
  };
  for (const auto& [patch, theta, scaling] : cases) {
    const LlamaSpec llama = config(patch);
    EXPECT_EQ(llama.rope_theta, theta) << patch;
    EXPECT_EQ(llama.rope_scaling, scaling) << patch;
    // What is written for weights that were trained from it is read as the same, in one spelling.
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

TEST_F(HuggingFace, RefusesRotarySettingsByTheirPlace) {
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

TEST_F(HuggingFace, RefusesWhatWouldNeedAnotherModel) {
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"architectures", {"MistralForCausalLM"}}, {"num_key_value_heads", 4}, {"attention_bias", true}},
       "'attention_bias' is true"},
      {{{"architectures", {"SmolLM3ForCausalLM"}}, {"mlp_bias", true}}, "'mlp_bias' is true"},
      {{{"architectures", {"OlmoeForCausalLM"}}, {"num_experts", 4}, {"output_router_logits", true}},
       "the load-balancing loss of the router"},
      {{{"architectures", {"Qwen2MoeForCausalLM"}}, {"num_experts", 4}, {"use_sliding_window", true}},
       "'use_sliding_window' is true: which layers have the window"},
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

TEST_F(HuggingFace, ReadsOneFileOrShards) {
  shard("model-1.safetensors", {"a"});
  shard("model-2.safetensors", {"bb", "ccc"});
  index({{"a", "model-1.safetensors"}, {"bb", "model-2.safetensors"}, {"ccc", "model-2.safetensors"}});
  Params params;
  for (const auto* name : {"a", "bb", "ccc"}) params.add(param(name, {2, 3}));
  const Checkpoint shards(folder_);
  shards.check_complete(params);
  shards.check_known(params);
  for (const Param* p : params.all())
    EXPECT_TRUE(at::equal(shards.read(*p), at::full({2, 3}, static_cast<double>(p->name.size()))));
  EXPECT_TRUE(shards.contains("a"));
  EXPECT_FALSE(shards.contains("d"));
  // The same weights in one file beside them are no matter, others are.
  shard("model.safetensors", {"a", "bb", "ccc"});
  EXPECT_TRUE(Checkpoint(folder_).contains("ccc"));
  shard("model.safetensors", {"a", "bb", "ccc", "d"});
  EXPECT_THAT(error_of([&] { Checkpoint{folder_}; }), is_error("invalid_file", "model.safetensors"));
  write_safetensors(folder_ / "model.safetensors", {{"bb", at::ones({2, 3})}});
  EXPECT_THAT(error_of([&] { Checkpoint{folder_}; }),
              AllOf(HasSubstr("'bb' of model-2.safetensors"), HasSubstr("'bb' of model.safetensors"),
                    HasSubstr("different values")));
  // An index that was left behind.
  for (const char* shard : {"model-1.safetensors", "model-2.safetensors"}) fs::remove(folder_ / shard);
  EXPECT_TRUE(Checkpoint(folder_).contains("bb"));
}

TEST_F(HuggingFace, ChecksNamesAndShapesBothWays) {
  const Tensor value = at::ones({2, 3});
  write_safetensors(folder_ / "model.safetensors", {{"model.embed_tokens.weight", value},
                                                    {"lm_head.weight", value},
                                                    {"model.layers.0.self_attn.rotary_emb.inv_freq", value}});
  const Checkpoint checkpoint(folder_);
  Params tied;
  tied.add(param("model.embed_tokens.weight", {2, 3}));
  EXPECT_NO_THROW(checkpoint.check_complete(tied));
  EXPECT_NO_THROW(checkpoint.check_known(tied));
  Params missing;
  missing.add(param("model.embed_tokens.wieght", {2, 3}));
  EXPECT_THAT(error_of([&] { checkpoint.check_complete(missing); }),
              AllOf(HasSubstr("no 'model.embed_tokens.wieght'"),
                    HasSubstr("did you mean 'model.embed_tokens.weight'")));
  Params unknown;
  unknown.add(param("lm_head.weight", {2, 3}));
  EXPECT_THAT(error_of([&] { checkpoint.check_known(unknown); }),
              is_error("invalid_file", "'model.embed_tokens.weight'", "config.json"));
  Params transposed;
  transposed.add(param("model.embed_tokens.weight", {3, 2}));
  EXPECT_THAT(error_of([&] { checkpoint.check_complete(transposed); }),
              AllOf(HasSubstr("[2,3]"), HasSubstr("[3,2]")));
  write_safetensors(folder_ / "model.safetensors",
                    {{"model.embed_tokens.weight", at::zeros({2, 3}, at::kByte)}});
  EXPECT_THAT(error_of([&] { Checkpoint(folder_).check_complete(tied); }), HasSubstr("stored as U8"));
}

TEST_F(HuggingFace, ChecksTheIndex) {
  const auto open = [&] { return error_of([&] { Checkpoint{folder_}; }); };
  EXPECT_THAT(open(), HasSubstr("no model.safetensors"));
  shard("one.safetensors", {"a"});
  shard("two.safetensors", {"a", "b"});
  index({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  EXPECT_EQ(open(), "") << "a second copy";
  write_safetensors(folder_ / "two.safetensors", {{"a", at::zeros({2, 3})}, {"b", at::zeros({2, 3})}});
  EXPECT_THAT(open(), AllOf(HasSubstr("'a' of one.safetensors"), HasSubstr("'a' of two.safetensors")));
  index({{"a", "one.safetensors"}, {"b", "one.safetensors"}});
  EXPECT_THAT(open(), HasSubstr("'b' is not in \"one.safetensors\""));
  index({{"a", "../one.safetensors"}});
  EXPECT_THAT(open(), HasSubstr("not the name of a file"));
  index({{"a", 1}});
  EXPECT_THAT(open(), HasSubstr("not the name of a file"));
  index({{"a", "three.safetensors"}});
  EXPECT_THAT(open(), HasSubstr("'a' is in three.safetensors, which is missing"));
  index(nullptr);
  EXPECT_THAT(open(), HasSubstr("'weight_map' must map"));
  write_file(folder_ / "model.safetensors.index.json", "[]");
  EXPECT_THAT(open(), HasSubstr("'weight_map' must map"));
}

TEST_F(HuggingFace, FindsParametersBehindWhatWrappersPutIntoNames) {
  const std::string layer = "model.layers.0.mlp.up_proj.weight";
  for (const char* stored :
       {"model.layers.0.mlp.up_proj.weight", "_orig_mod.model.layers.0.mlp.up_proj.weight",
        "module._orig_mod.model.layers.0.mlp.up_proj.weight", "model.layers.0._orig_mod.mlp.up_proj.weight",
        "_fsdp_wrapped_module.model.layers.0._fsdp_wrapped_module._checkpoint_wrapped_module.mlp.up_proj."
        "weight",
        "base_model.model.model.layers.0.mlp.up_proj.base_layer.weight", "layers.0.mlp.up_proj.weight",
        "model.model.layers.0.mlp.up_proj.weight", "_forward_module.model.model.layers.0.mlp.up_proj.weight"})
    EXPECT_EQ(parameter_name(stored), layer) << stored;
  EXPECT_EQ(parameter_name("norm.weight"), "model.norm.weight");
  EXPECT_EQ(parameter_name("embed_tokens.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(parameter_name("module.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(parameter_name("base_model.model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(parameter_name("base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight"),
            "model.layers.0.self_attn.q_proj.lora_A.weight");
  Params params;
  params.add(param(layer, {2, 3}));
  write_safetensors(folder_ / "model.safetensors", {{"_orig_mod." + layer, at::full({2, 3}, 7.0)}});
  const Checkpoint checkpoint(folder_);
  checkpoint.check_complete(params);
  checkpoint.check_known(params);
  EXPECT_TRUE(at::equal(checkpoint.read(*params.all().front()), at::full({2, 3}, 7.0)));
  write_safetensors(folder_ / "model.safetensors",
                    {{"_orig_mod." + layer, at::ones({2, 3})}, {layer, at::zeros({2, 3})}});
  EXPECT_THAT(error_of([&] { Checkpoint{folder_}; }), HasSubstr("different values"));
}

TEST_F(HuggingFace, ComparesAStoredHeadWithTheEmbeddingByValue) {
  const char *embedding = "model.embed_tokens.weight", *head = "lm_head.weight";
  Params tied, untied;
  for (Params* params : {&tied, &untied}) params->add(param(embedding, {2, 3}));
  untied.add(param(head, {2, 3}));
  const auto store = [&](const std::vector<std::pair<std::string, Tensor>>& tensors) {
    write_safetensors(folder_ / "model.safetensors", tensors);
  };
  const auto check = [&](const Params& params) {
    return error_of([&] { Checkpoint(folder_).check_complete(params); });
  };
  const Tensor one = at::ones({2, 3}), two = at::full({2, 3}, 2.0);
  store({{embedding, one}, {head, one}});
  EXPECT_EQ(check(tied), "");
  EXPECT_EQ(check(untied), "");
  store({{embedding, one}, {head, two}});
  EXPECT_THAT(check(tied), AllOf(HasSubstr("tie_word_embeddings"), HasSubstr("'lm_head.weight'"),
                                 HasSubstr("\"tie_word_embeddings\": false")));
  EXPECT_EQ(check(untied), "");
  // Equal in other types as well: all of these values have few bits.
  const Tensor short_values =
      at::tensor({1.5, -0.25, 0.0, 6e-5, -65504.0, HUGE_VAL}).view({2, 3}).to(at::kHalf);
  for (const auto type : {at::kFloat, at::kDouble}) {
    store({{embedding, short_values}, {head, short_values.to(type)}});
    EXPECT_EQ(check(tied), "") << type;
    store({{embedding, short_values.to(type)},
           {head, short_values.to(type).nextafter(at::ones({2, 3}, type))}});
    EXPECT_THAT(check(tied), HasSubstr("has a different value")) << type;
  }
  store({{embedding, two}, {head, two.to(at::kBFloat16)}});
  EXPECT_EQ(check(tied), "");
  store({{embedding, two.neg()}, {head, two.to(at::kBFloat16)}});
  EXPECT_THAT(check(tied), HasSubstr("has a different value"));
  store({{embedding, one}, {head, at::ones({3, 3})}});
  EXPECT_THAT(check(tied), HasSubstr("'lm_head.weight'"));
  // safetensors.torch.save_model keeps one name of a shared tensor.
  store({{head, two}});
  EXPECT_EQ(check(tied), "");
  const Checkpoint checkpoint(folder_);
  checkpoint.check_known(tied);
  EXPECT_TRUE(at::equal(checkpoint.read(*tied.all().front()), two));
  EXPECT_THAT(check(untied), is_error("invalid_file", "'model.embed_tokens.weight'"));
  store({{embedding, one}});
  EXPECT_EQ(check(tied), "");
  EXPECT_THAT(check(untied), AllOf(HasSubstr("no 'lm_head.weight'"), HasSubstr("tie_word_embeddings")));
}

TEST_F(HuggingFace, ListsTheParametersThatTheModelDeclares) {
  for (const NormKind norm : {NormKind::rmsnorm, NormKind::layernorm, NormKind::layernorm_without_parameters})
    for (const bool tie : {false, true}) {
      LlamaSpec spec{.dim = 64, .n_layers = 2, .head_dim = 10, .norm = norm, .tie_embeddings = tie};
      Params params;
      const Model model = declare_llama(spec, params, at::kFloat);
      std::vector<NamedShape> declared, listed = llama_parameters(spec);
      for (const Param* param : std::as_const(params).all()) declared.push_back({param->name, param->shape});
      for (auto* list : {&declared, &listed}) std::ranges::sort(*list, {}, &NamedShape::name);
      ASSERT_EQ(declared.size(), listed.size());
      for (size_t i = 0; i < declared.size(); ++i) {
        EXPECT_EQ(declared[i].name, listed[i].name);
        EXPECT_EQ(declared[i].shape, listed[i].shape);
      }
    }
}

TEST_F(HuggingFace, ChecksAFolderWithoutReadingIt) {
  const LlamaSpec spec = config({{"tie_word_embeddings", true}});
  const auto write = [&](const std::string& extra, at::ScalarType dtype = at::kFloat) {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const auto& [name, shape] : llama_parameters(spec))
      tensors.emplace_back(name, at::zeros(shape, dtype));
    if (!extra.empty()) tensors.emplace_back(extra, at::zeros({2}));
    write_safetensors(folder_ / "model.safetensors", tensors);
    return error_of([&] { check_checkpoint(folder_, "x.lua:7"); });
  };
  EXPECT_EQ(write(""), "");
  EXPECT_EQ(write("", at::kHalf), "");
  EXPECT_EQ(write("model.layers.1.self_attn.q_proj.lora_A.weight"), "") << "a plugin may train it";
  EXPECT_THAT(write("score.weight"), AllOf(::testing::StartsWith("invalid_file: x.lua:7: "),
                                           HasSubstr("'score.weight'"), HasSubstr(folder_.string())));
  EXPECT_THAT(write("model.layers.2.mlp.up_proj.weight"), HasSubstr("'model.layers.2.mlp.up_proj.weight'"));
  config({{"intermediate_size", 114}});
  EXPECT_THAT(error_of([&] { check_checkpoint(folder_, "x.lua:7"); }),
              AllOf(HasSubstr("x.lua:7"), HasSubstr("[114,64]")));
  fs::remove(folder_ / "model.safetensors");
  write_file(folder_ / "pytorch_model.bin", "");
  EXPECT_THAT(error_of([&] { check_checkpoint(folder_, "x.lua:7"); }), HasSubstr("safe_serialization"));
  write_file(folder_ / "model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_THAT(error_of([&] { check_checkpoint(folder_, "x.lua:7"); }), HasSubstr("git lfs pull"));
}

TEST_F(HuggingFace, WritesTheTypeUnderBothNames) {
  config({{"dtype", "bfloat16"}, {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7.0}}}});
  const Json written = with_dtype(config_of_checkpoint(folder_), "fp32");
  EXPECT_EQ(written["dtype"], "float32");
  EXPECT_EQ(written["torch_dtype"], "float32");
  EXPECT_EQ(written["rope_theta"], 7.0);
  EXPECT_TRUE(written.at("rope_scaling").is_null());
  EXPECT_EQ(written["model_type"], "llama");
  EXPECT_EQ(written["vocab_size"], 97) << "the other fields are kept";
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
  Json without_caps = read_json(folder_ / "config.json");  // a patch would take the nulls away
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

TEST_F(HuggingFace, NamesExpertsAsTheClassDoes) {
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
  };
  for (const auto& [spec, name] : cases) {
    const Json config = hugging_face_config(spec, 64);
    EXPECT_EQ(config["architectures"][0], name);
    write_json(folder_ / "config.json", config);
    LlamaSpec expected = spec;
    expected.head_dim = spec.head_size();
    if (spec.rope_scaling.factor != 1) expected.rope_scaling.low_freq_factor = 1;  // of llama3 alone
    if (!name.starts_with("Qwen")) expected.expert_ffn_dim = 0;                    // as wide as ffn_dim
    EXPECT_EQ(read_hugging_face_model(folder_).llama, expected) << config;
  }
}

TEST_F(HuggingFace, WarnsOfStatesThatNoClassHas) {
  RunSpec spec;
  spec.model = {{"norm", "layernorm"}};
  EXPECT_EQ(unwritable(spec), std::nullopt) << "nothing is saved";
  spec.save.every = 2;
  EXPECT_THAT(unwritable(spec).value_or(""),
              AllOf(HasSubstr("the nearest are"), HasSubstr("norm = "), HasSubstr("adapter")));
  spec.model["norm"] = "layernorm_without_parameters";
  EXPECT_EQ(unwritable(spec), std::nullopt);
}

TEST_F(HuggingFace, NamesTheNearestClassesOfWhatNoneHas) {
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
