#include "model/hugging_face.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "../support/error_of.h"
#include "../support/temporary_folder.h"
#include "base/files.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using optrush::testing::error_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class HuggingFace : public ::testing::Test {
 protected:
  /// config.json of a small Llama, changed by `patch`: null takes a field away.
  LlamaSpec config(const Json& patch = Json::object()) const {
    Json json = {{"architectures", {"LlamaForCausalLM"}},
                 {"vocab_size", 97},
                 {"hidden_size", 64},
                 {"intermediate_size", 113},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4}};
    json.merge_patch(patch);
    write_json(folder_ / "config.json", json);
    return llama_from_hugging_face(folder_);
  }
  /// As config(), of a Mistral that says that it has no window. A patch would take the null away.
  fs::path mistral_folder(const Json& patch) const {
    config(patch);
    Json json = read_json(folder_ / "config.json");
    json["architectures"] = {"MistralForCausalLM"};
    json["sliding_window"] = nullptr;
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

  const optrush::testing::TemporaryFolder temporary_;
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
  const LlamaSpec mistral = llama_from_hugging_face(mistral_folder({{"num_attention_heads", 16}}));
  EXPECT_EQ(mistral.norm, NormKind::rmsnorm);
  EXPECT_EQ(mistral.n_kv_heads, 8);
  EXPECT_EQ(mistral.rope_theta, 10000);
}

TEST_F(HuggingFace, ReadsBothFormsOfRope) {
  const Json rope = {{"rope_type", "llama3"},
                     {"factor", 32.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 8192}};
  const RopeScaling expected{32, 1, 4, 8192};
  const LlamaSpec older = config({{"rope_theta", 500000.0}, {"rope_scaling", rope}});
  EXPECT_EQ(older.rope_scaling, expected);
  EXPECT_EQ(older.rope_theta, 500000);
  Json merged = rope;
  merged["rope_theta"] = 500000.0;
  const LlamaSpec newer = config({{"rope_parameters", merged}});
  EXPECT_EQ(newer.rope_scaling, expected);
  EXPECT_EQ(newer.rope_theta, 500000);
  EXPECT_EQ(config({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7}}}}).rope_theta, 7);
}

TEST_F(HuggingFace, RefusesWhatWouldNeedAnotherModel) {
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"attention_bias", true}}, "'attention_bias' is true"},
      {{{"mlp_bias", true}}, "'mlp_bias' is true"},
      {{{"hidden_act", "gelu"}}, "'hidden_act' is \"gelu\""},
      {{{"clip_qkv", 8.0}}, "'clip_qkv' is 8.0"},
      {{{"attention_dropout", 0.1}}, "'attention_dropout' is 0.1"},
      {{{"partial_rotary_factor", 0.5}}, "'partial_rotary_factor' is 0.5"},
      {{{"quantization_config", {{"bits", 4}}}}, "'quantization_config' is"},
      {{{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}, "'rope_scaling.rope_type' is \"linear\""},
      {{{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 2.0}}}},
       "'rope_scaling.low_freq_factor' is missing"},
      {{{"rope_parameters", 3}}, "'rope_parameters' must be a table"},
      {{{"architectures", {"LlamaModel"}}}, "'LlamaForCausalLM'"},
      {{{"architectures", {"MistralForCausalLM"}}}, "sliding window"},
      {{{"architectures", {"MistralForCausalLM"}}, {"sliding_window", 4096}}, "sliding window"},
      {{{"architectures", nullptr}}, "'architectures'"},
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
  EXPECT_THAT(error_of([&] { llama_from_hugging_face(folder_); }), HasSubstr("config.json"));
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
  shard("model.safetensors", {"a", "bb", "ccc", "d"});
  EXPECT_TRUE(Checkpoint(folder_).contains("d"));
}

TEST_F(HuggingFace, ChecksNamesAndShapesBothWays) {
  shard("model.safetensors",
        {"model.embed_tokens.weight", "lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"});
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
              HasSubstr("has 'model.embed_tokens.weight', which the model of its config.json does not"));
  Params transposed;
  transposed.add(param("model.embed_tokens.weight", {3, 2}));
  EXPECT_THAT(error_of([&] { checkpoint.check_complete(transposed); }),
              AllOf(HasSubstr("[2,3]"), HasSubstr("[3,2]")));
  write_safetensors(folder_ / "model.safetensors",
                    {{"model.embed_tokens.weight", at::zeros({2, 3}, at::kByte)}});
  EXPECT_THAT(error_of([&] { Checkpoint(folder_).check_complete(tied); }), HasSubstr("stored as Byte"));
}

TEST_F(HuggingFace, ChecksTheIndex) {
  const auto open = [&] { return error_of([&] { Checkpoint{folder_}; }); };
  EXPECT_THAT(open(), HasSubstr("no model.safetensors"));
  shard("one.safetensors", {"a"});
  shard("two.safetensors", {"a", "b"});
  index({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  EXPECT_THAT(open(), HasSubstr("'a' is in two files"));
  index({{"a", "one.safetensors"}, {"b", "one.safetensors"}});
  EXPECT_THAT(open(), HasSubstr("'b' is not in \"one.safetensors\""));
  index({{"a", "../one.safetensors"}});
  EXPECT_THAT(open(), HasSubstr("no file of this folder"));
  index({{"a", 1}});
  EXPECT_THAT(open(), HasSubstr("no file of this folder"));
  index({{"a", "three.safetensors"}});
  EXPECT_THAT(open(), HasSubstr("three.safetensors"));
  index(nullptr);
  EXPECT_THAT(open(), HasSubstr("'weight_map' must map"));
  write_file(folder_ / "model.safetensors.index.json", "[]");
  EXPECT_THAT(open(), HasSubstr("'weight_map' must map"));
}
}  // namespace
}  // namespace optrush
