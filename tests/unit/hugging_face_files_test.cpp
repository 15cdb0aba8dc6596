// The safetensors files of a model: names, shapes, shards and the index.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "../support/error_of.h"
#include "checkpoint/check_checkpoint.h"
#include "hugging_face_fixture.h"
#include "model/hugging_face.h"
#include "model/kinds.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using optrush::testing::error_of;
using optrush::testing::is_error;
using ::testing::AllOf;
using ::testing::HasSubstr;

NamedTensors random_values(const Params& params) {
  NamedTensors values;
  for (const Param* param : params.all()) values.emplace_back(param->name, at::randn(param->shape));
  return values;
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
  // A single file beside the shards is allowed if it has the same weights.
  shard("model.safetensors", {"a", "bb", "ccc"});
  EXPECT_TRUE(Checkpoint(folder_).contains("ccc"));
  shard("model.safetensors", {"a", "bb", "ccc", "d"});
  EXPECT_THAT(error_of([&] { Checkpoint{folder_}; }), is_error("invalid_file", "model.safetensors"));
  write_safetensors(folder_ / "model.safetensors", {{"bb", at::ones({2, 3})}});
  EXPECT_THAT(error_of([&] { Checkpoint{folder_}; }),
              AllOf(HasSubstr("'bb' of model-2.safetensors"), HasSubstr("'bb' of model.safetensors"),
                    HasSubstr("different values")));
  // A stale index.
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
  EXPECT_EQ(open(), "") << "equal copies are allowed";
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

TEST_F(HuggingFace, RemovesTheNamesOfWrappersFromParameters) {
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
  // These values have few bits, so they are equal in other types.
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
  const LlamaSpec latent{.n_kv_heads = 8, .head_dim = 24, .latent = {.kv_rank = 20, .rope_dim = 8}};
  LlamaSpec narrow = latent;
  narrow.latent.q_rank = 30;
  narrow.attention_bias = AttentionBias::all;
  const LlamaSpec grouped{.n_experts = 4,
                          .shared_expert_ffn_dim = 24,
                          .shared_expert_gate = false,
                          .router = {.scores = RouterScores::sigmoid, .bias = RouterBias::choice}};
  const LlamaSpec biased{
      .attention_sinks = true, .n_experts = 4, .expert_bias = true, .router = {.bias = RouterBias::logits}};
  const LlamaSpec linear{.attention_gate = true,
                         .delta_net = {.key_heads = 2, .value_heads = 6, .key_dim = 8, .value_dim = 12},
                         .full_attention_layers = {1}};
  LlamaSpec joined = linear;
  joined.delta_net.joined = true;
  joined.attention_bias = AttentionBias::all;
  const LlamaSpec mamba{.mamba = {.heads = 6, .groups = 2, .head_dim = 10, .state = 8},
                        .full_attention_layers = {1}};
  LlamaSpec biased_mamba = mamba;
  biased_mamba.mamba.convolution_bias = false;
  biased_mamba.mamba.projection_bias = true;
  LlamaSpec ungated = mamba;
  ungated.activation = Activation::relu2;
  ungated.layers_without_mlp = {1};
  ungated.n_experts = 2;
  for (LlamaSpec spec :
       {linear, joined, mamba, biased_mamba, ungated, LlamaSpec{.head_dim = 10},
        LlamaSpec{.norm = NormKind::layernorm}, LlamaSpec{.norm = NormKind::layernorm_without_parameters},
        latent, narrow, grouped, biased})
    for (const bool tie : {false, true}) {
      spec.n_layers = 2;
      spec.tie_embeddings = tie;
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

TEST_F(HuggingFace, ReadsAndWritesJoinedProjections) {
  const Json patch = {
      {"architectures", {"Phi3ForCausalLM"}}, {"num_key_value_heads", 2}, {"num_hidden_layers", 1}};
  const LlamaSpec spec = config(patch);
  Params params;
  const Model declared = declare_llama(spec, params, at::kFloat);
  NamedTensors values = random_values(params);
  std::ranges::sort(values, {}, &NamedTensors::value_type::first);  // as in a saved state
  const NamedTensors stored = tensors_of_file(values, model(patch).storage);
  write_safetensors(folder_ / "model.safetensors", stored);
  std::map<std::string, Tensor> by_name(stored.begin(), stored.end());
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(by_name.at(layer + "self_attn.qkv_proj.weight").sizes(), (at::IntArrayRef{64 + 2 * 32, 64}));
  EXPECT_EQ(by_name.at(layer + "mlp.gate_up_proj.weight").sizes(), (at::IntArrayRef{226, 64}));
  EXPECT_FALSE(by_name.contains(layer + "self_attn.q_proj.weight"));
  const Checkpoint checkpoint(folder_);
  checkpoint.check_complete(params);
  checkpoint.check_known(params);
  for (const auto& [name, value] : values)
    EXPECT_TRUE(at::equal(checkpoint.read(params.at(name)), value)) << name;
  EXPECT_EQ(error_of([&] { check_checkpoint(folder_, "x.lua:7"); }), "");
  by_name.at(layer + "mlp.gate_up_proj.weight") = at::zeros({225, 64});
  write_safetensors(folder_ / "model.safetensors", {by_name.begin(), by_name.end()});
  EXPECT_THAT(
      error_of([&] { check_checkpoint(folder_, "x.lua:7"); }),
      AllOf(HasSubstr("gate_up_proj.weight' has shape [225,64]"), HasSubstr("[226,64] by config.json")));
}

/// Granite 4 joins gate and up of the MLP, which is the shared expert beside experts, and all experts.
TEST_F(HuggingFace, ReadsAndWritesTheJoinedTensorsOfGranite4) {
  for (const int64_t experts : {0, 3}) {
    const Json patch = {{"architectures", {"GraniteMoeHybridForCausalLM"}},
                        {"num_hidden_layers", 2},
                        {"num_local_experts", experts},
                        {"num_experts_per_tok", 2},
                        {"shared_intermediate_size", 40},
                        {"mamba_n_heads", 8},
                        {"mamba_d_state", 12},
                        {"layer_types", {"mamba", "attention"}}};
    const LlamaSpec spec = config(patch);
    Params params;
    const Model declared = declare_llama(spec, params, at::kFloat);
    const NamedTensors values = random_values(params);
    const NamedTensors stored = tensors_of_file(values, model(patch).storage);
    write_safetensors(folder_ / "model.safetensors", stored);
    const std::map<std::string, Tensor> by_name(stored.begin(), stored.end());
    const auto sizes = [&](const char* name) {
      return by_name.at("model.layers.1." + std::string(name) + ".weight").sizes();
    };
    EXPECT_EQ(sizes("shared_mlp.input_linear"), (at::IntArrayRef{80, 64}));
    EXPECT_EQ(sizes("shared_mlp.output_linear"), (at::IntArrayRef{64, 40}));
    EXPECT_EQ(by_name.at("model.layers.0.mamba.in_proj.weight").sizes(),
              (at::IntArrayRef{2 * 128 + 2 * 12 + 8, 64}));
    if (experts > 0) {
      EXPECT_EQ(sizes("block_sparse_moe.router.layer"), (at::IntArrayRef{3, 64}));
      EXPECT_EQ(sizes("block_sparse_moe.input_linear"), (at::IntArrayRef{3, 2 * 113, 64}));
      EXPECT_EQ(sizes("block_sparse_moe.output_linear"), (at::IntArrayRef{3, 64, 113}));
    }
    for (const auto& [name, value] : stored) EXPECT_EQ(name.find(".mlp."), std::string::npos) << name;
    const Checkpoint checkpoint(folder_);
    checkpoint.check_complete(params);
    checkpoint.check_known(params);
    for (const auto& [name, value] : values)
      EXPECT_TRUE(at::equal(checkpoint.read(params.at(name)), value)) << name;
    EXPECT_EQ(error_of([&] { check_checkpoint(folder_, "x.lua:7"); }), "");
  }
}

/// A block of the model is one or two layers of Nemotron-H.
TEST_F(HuggingFace, ReadsAndWritesTheLayersOfNemotronH) {
  const Json patch = {{"architectures", {"NemotronHForCausalLM"}},
                      {"num_hidden_layers", nullptr},
                      {"hybrid_override_pattern", "M*-ME"},
                      {"head_dim", 8},
                      {"num_key_value_heads", 2},
                      {"mamba_num_heads", 8},
                      {"n_groups", 2},
                      {"n_routed_experts", 2},
                      {"moe_intermediate_size", 24},
                      {"moe_shared_expert_intermediate_size", 40}};
  const LlamaSpec spec = config(patch);
  Params params;
  const Model declared = declare_llama(spec, params, at::kFloat);
  const NamedTensors values = random_values(params);
  NamedTensors stored = tensors_of_file(values, model(patch).storage);
  std::map<std::string, Tensor> by_name(stored.begin(), stored.end());
  const std::map<std::string, Tensor> ours(values.begin(), values.end());
  const std::pair<const char*, const char*> names[] = {
      {"embed_tokens.weight", "embeddings.weight"},
      {"layers.0.input_layernorm.weight", "layers.0.norm.weight"},
      {"layers.0.mamba.conv1d.weight", "layers.0.mixer.conv1d.weight"},
      {"layers.1.self_attn.q_proj.weight", "layers.1.mixer.q_proj.weight"},
      {"layers.1.post_attention_layernorm.weight", "layers.2.norm.weight"},
      {"layers.1.mlp.up_proj.weight", "layers.2.mixer.up_proj.weight"},
      {"layers.2.mamba.norm.weight", "layers.3.mixer.norm.weight"},
      {"layers.2.mlp.gate.e_score_correction_bias", "layers.4.mixer.gate.e_score_correction_bias"},
      {"layers.2.mlp.experts.1.down_proj.weight", "layers.4.mixer.experts.1.down_proj.weight"},
      {"layers.2.mlp.shared_expert.up_proj.weight", "layers.4.mixer.shared_experts.up_proj.weight"},
      {"norm.weight", "norm_f.weight"}};
  for (const auto& [name, theirs] : names)
    EXPECT_TRUE(
        at::equal(by_name.at("backbone." + std::string(theirs)), ours.at("model." + std::string(name))))
        << name;
  stored.emplace_back("mtp.layers.0.norm.weight", at::ones({64}));
  write_safetensors(folder_ / "model.safetensors", stored);
  const Checkpoint checkpoint(folder_);
  checkpoint.check_complete(params);
  checkpoint.check_known(params);
  for (const auto& [name, value] : values)
    EXPECT_TRUE(at::equal(checkpoint.read(params.at(name)), value)) << name;
  EXPECT_EQ(error_of([&] { check_checkpoint(folder_, "x.lua:7"); }), "");
  by_name.erase("backbone.layers.3.mixer.in_proj.weight");
  write_safetensors(folder_ / "model.safetensors", {by_name.begin(), by_name.end()});
  EXPECT_THAT(error_of([&] { check_checkpoint(folder_, "x.lua:7"); }),
              HasSubstr("no 'model.layers.3.mixer.in_proj.weight'"));
}

/// A folder of gpt-oss with two experts whose joined matrices are in MXFP4.
TEST_F(HuggingFace, DecodesMxfp4) {
  const Json patch = {{"architectures", {"GptOssForCausalLM"}},
                      {"num_key_value_heads", 2},
                      {"num_hidden_layers", 1},
                      {"num_local_experts", 2},
                      {"num_experts_per_tok", 1},
                      {"intermediate_size", 32},
                      {"rope_scaling", {{"rope_type", "default"}}},
                      {"quantization_config", {{"quant_method", "mxfp4"}}}};
  const LlamaSpec spec = config(patch);
  Params params;
  const Model declared = declare_llama(spec, params, at::kFloat);
  const NamedTensors values = random_values(params);
  NamedTensors stored = tensors_of_file(values, model(patch).storage);
  const std::string joined = "model.layers.0.mlp.experts.gate_up_proj";
  EXPECT_EQ(std::ranges::count(stored, joined, &std::pair<std::string, Tensor>::first), 1);
  std::erase_if(stored, [&](const auto& named) { return named.first == joined; });
  const Tensor blocks = at::randint(0, 256, {2, 64, 2, 16}, at::kByte);
  const Tensor scales = at::randint(120, 131, {2, 64, 2}, at::kByte);
  stored.insert(stored.end(), {{joined + "_blocks", blocks}, {joined + "_scales", scales}});
  write_safetensors(folder_ / "model.safetensors", stored);
  EXPECT_EQ(error_of([&] { check_checkpoint(folder_, "x.lua:7"); }), "");
  const Checkpoint checkpoint(folder_);
  checkpoint.check_complete(params);
  checkpoint.check_known(params);
  const double numbers[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (const int64_t expert : {0, 1})
    for (const auto& [kind, first] : {std::pair("gate_proj", 0), std::pair("up_proj", 1)}) {
      const Tensor value = checkpoint.read(
          params.at("model.layers.0.mlp.experts." + std::to_string(expert) + "." + kind + ".weight"));
      ASSERT_EQ(value.sizes(), (at::IntArrayRef{32, 64}));
      for (int64_t row = 0; row < 32; ++row)
        for (int64_t column = 0; column < 64; ++column) {
          const int64_t at = 2 * row + first, block = column / 32, place = column % 32;
          const auto byte = blocks[expert][at][block][place / 2].item<int64_t>();
          const int64_t code = place % 2 == 0 ? byte % 16 : byte / 16;
          const double size = std::ldexp(numbers[code % 8], scales[expert][at][block].item<int>() - 127);
          ASSERT_EQ(value[row][column].item<double>(), code < 8 ? size : -size) << row << " " << column;
        }
    }
  for (const auto& [name, value] : values) {
    if (name.find("gate_proj.weight") != std::string::npos ||
        name.find("up_proj.weight") != std::string::npos)
      continue;
    EXPECT_TRUE(at::equal(checkpoint.read(params.at(name)), value)) << name;
  }
  stored.back().second = at::zeros({2, 64, 1}, at::kByte);
  write_safetensors(folder_ / "model.safetensors", stored);
  EXPECT_THAT(error_of([&] { check_checkpoint(folder_, "x.lua:7"); }), HasSubstr("in MXFP4"));
}

/// Qwen3-Next stores the weights of its norms minus 1, but not of the norms behind the delta rule.
TEST_F(HuggingFace, ReadsWeightsOfQwen3Next) {
  const HuggingFaceModel next = model({{"architectures", {"Qwen3NextForCausalLM"}},
                                       {"num_experts", 2},
                                       {"num_experts_per_tok", 1},
                                       {"layer_types", {"linear_attention", "full_attention"}}});
  NamedTensors tensors;
  for (const auto& [name, shape] : llama_parameters(next.llama)) tensors.emplace_back(name, at::zeros(shape));
  tensors.emplace_back("mtp.fc.weight", at::zeros({2}));
  write_safetensors(folder_ / "model.safetensors", tensors);
  EXPECT_EQ(error_of([&] { check_checkpoint(folder_, "x.lua:7"); }), "");
  const Checkpoint checkpoint(folder_);
  for (const auto& [norm, size, value] : {std::tuple("0.input_layernorm", 64, 1.0),
                                          {"1.self_attn.q_norm", 256, 1.0},
                                          {"0.linear_attn.norm", 128, 0.0}}) {
    const std::string name = "model.layers." + std::string(norm) + ".weight";
    EXPECT_TRUE(at::equal(checkpoint.read(param(name, {size})), at::full({size}, value))) << name;
    EXPECT_TRUE(at::equal(stored_value(name, at::full({size}, value), next.storage), at::zeros({size})));
  }
}

TEST_F(HuggingFace, LeavesOutTheLayerThatPredictsFurtherTokens) {
  const LlamaSpec spec = config({{"architectures", {"Glm4MoeForCausalLM"}},
                                 {"num_key_value_heads", 2},
                                 {"n_routed_experts", 2},
                                 {"num_experts_per_tok", 1},
                                 {"moe_intermediate_size", 8}});
  NamedTensors tensors;
  for (const auto& [name, shape] : llama_parameters(spec)) tensors.emplace_back(name, at::zeros(shape));
  tensors.emplace_back("model.layers.2.eh_proj.weight", at::zeros({2}));
  write_safetensors(folder_ / "model.safetensors", tensors);
  EXPECT_EQ(error_of([&] { check_checkpoint(folder_, "x.lua:7"); }), "");
  tensors.emplace_back("model.layers.3.eh_proj.weight", at::zeros({2}));
  write_safetensors(folder_ / "model.safetensors", tensors);
  EXPECT_THAT(error_of([&] { check_checkpoint(folder_, "x.lua:7"); }), HasSubstr("model.layers.3.eh_proj"));
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
  EXPECT_EQ(write("model.layers.1.self_attn.q_proj.lora_A.weight"), "") << "a plugin may have trained it";
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
}  // namespace
}  // namespace optrush
