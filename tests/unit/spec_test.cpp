#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <random>

#include "../support/error_of.h"
#include "base/files.h"
#include "optrush/spec.h"
#include "schema_file.h"
#include "spec/model_kinds.h"
#include "spec/spec_json.h"
#include "support/folders.h"

namespace optrush {
namespace {
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::is_error;

const std::string kPlace = "x.lua:5";

std::string llama_error(const std::string& json) {
  return error_of([&] { llama_from_json(parse_json(json, "test"), kPlace); });
}
std::string data_error(const std::string& json) {
  return error_of([&] { fields_of<DataSpec>().read(parse_json(json, "test"), kPlace); });
}
std::string train_error(const std::string& json) {
  return error_of([&] { fields_of<TrainSpec>().read(parse_json(json, "test"), kPlace); });
}
std::string run_error(const std::string& json) {
  return error_of([&] { run_spec_from_json(parse_json(json, "test"), kPlace); });
}
std::string settings_error(const std::string& json, const RunSpec& base = {}) {
  return error_of([&] { merged(base, parse_json(json, "test"), kPlace); });
}

/// Random valid specs.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  double number(double low, double high) { return std::uniform_real_distribution<>(low, high)(engine_); }
  bool coin() { return integer(0, 1) == 1; }
  std::string text() {
    static const std::vector<std::string> words = {"",      "a",           "x y", "\"quoted\"",
                                                   "naïve", "line\nbreak", "\\"};
    return words[static_cast<size_t>(integer(0, 6))];
  }

  LlamaSpec llama() {
    LlamaSpec spec;
    if (integer(0, 9) == 0) {
      spec.checkpoint = "/models/x";
      return spec;
    }
    spec.vocab_size = integer(2, 200000);
    spec.n_kv_heads = integer(1, 8);
    spec.n_heads = spec.n_kv_heads * integer(1, 8);
    spec.head_dim = coin() ? 0 : 2 * integer(1, 128);
    spec.dim = spec.n_heads * 2 * integer(1, 64);
    spec.n_layers = integer(1, 100);
    spec.ffn_dim = integer(1, 50000);
    spec.norm = static_cast<NormKind>(integer(0, 2));
    spec.norm_eps = number(0, 1e-3);
    spec.rope_theta = number(1, 1e6);
    spec.rope_scaling = {.type = static_cast<RopeType>(integer(0, 2)),
                         .factor = number(1, 40),
                         .low_freq_factor = number(0, 1),
                         .high_freq_factor = number(1.5, 8),
                         .original_max_position = integer(1, 100000),
                         .beta_fast = number(8, 64),
                         .beta_slow = number(0.5, 4),
                         .attention_factor = number(0, 2),
                         .truncate = coin()};
    spec.norm_placement = static_cast<NormPlacement>(integer(0, 2));
    spec.activation = static_cast<Activation>(integer(0, 2));
    spec.attention_scale = coin() ? 0 : number(0.01, 1);
    spec.embedding_scale = number(0.1, 50);
    spec.residual_scale = number(0.1, 1);
    spec.logits_divisor = number(0.1, 16);
    spec.attention_soft_cap = number(0, 50);
    spec.logits_soft_cap = number(0, 50);
    spec.qk_norm = static_cast<QkNorm>(integer(0, 2));
    spec.attention_bias = static_cast<AttentionBias>(integer(0, 2));
    if (coin()) spec.layers_without_rope = {0};
    spec.window = coin() ? 0 : integer(1, 5000);
    if (spec.window != 0 && coin()) spec.full_attention_layers = {spec.n_layers - 1};
    if (spec.window != 0 && coin()) spec.window_rope_theta = number(1, 1e6);
    if (coin()) {
      spec.n_experts = integer(2, 200);
      spec.experts_per_token = integer(1, 2);
      spec.expert_ffn_dim = integer(0, 5000);
      if (coin()) spec.shared_expert_ffn_dim = integer(1, 5000);
      spec.normalize_router = coin();
      if (coin()) spec.dense_layers = {0};
    }
    spec.tie_embeddings = coin();
    spec.init_std = number(0, 1);
    return spec;
  }
  TrainSpec train() {
    TrainSpec spec;
    spec.micro_batch = integer(1, 64);
    spec.accumulation = integer(1, 64);
    spec.global_batch = coin() ? 0 : spec.micro_batch * spec.accumulation * integer(1, 1000);
    spec.seq_len = integer(1, 100000);
    spec.steps = integer(1, 1000);
    spec.warmup = integer(0, 1000);
    spec.seed = static_cast<uint64_t>(integer(0, std::numeric_limits<int64_t>::max()));
    spec.lr = number(0, 1);
    spec.lr_warmup = integer(0, 1000);
    if (coin()) {
      spec.lr_decay = coin() ? "linear" : "cosine";
      spec.lr_steps = spec.lr_warmup + integer(1, 1000);
      spec.lr_min = number(0, 1);
    }
    spec.beta1 = number(0, 0.999);
    spec.beta2 = number(0, 0.999);
    spec.eps = number(0, 1e-6);
    spec.weight_decay = number(0, 1);
    spec.dtype = std::vector<std::string>{"fp32", "fp64", "bf16"}[static_cast<size_t>(integer(0, 2))];
    return spec;
  }
  DataSpec data() {
    switch (integer(0, 2)) {
      case 0:
        return {};
      case 1:
        return {.kind = "tokens", .path = "/x.bin"};
      default:
        return {.kind = "text", .path = "/docs" + text(), .extensions = {".h", ".cpp"}};
    }
  }
  RunSpec run() {
    RunSpec spec;
    spec.experiment = text();
    spec.rung = text();
    spec.purpose = static_cast<Purpose>(integer(0, static_cast<int64_t>(Purpose::drift)));
    spec.variant = integer(0, 100);
    spec.round = integer(0, 100);
    spec.model = to_json(llama());
    spec.data = data();
    spec.train = train();
    for (auto n = integer(0, 3); n > 0; --n)
      spec.plugins.push_back(
          {"plugin" + std::to_string(n), {{"rank", integer(1, 9)}, {"modules", {"wq", text()}}}});
    spec.device = coin() ? "cpu" : "auto";
    spec.threads = integer(0, 64);
    spec.timeout_s = number(1, 1e6);
    spec.plugin_path = {"/plugins", text()};
    return spec;
  }

 private:
  std::mt19937_64 engine_;
};

/// Writes and reads `spec` as a file would hold it, and compares.
template <class Spec>
Spec read_as(const Json& json, const std::string& where) {
  return fields_of<Spec>().read(json, where);
}

template <class Spec, class Read>
void expect_round_trip(const Spec& spec, Read read) {
  const Json json = to_json(spec);
  EXPECT_EQ(to_json(read(parse_json(json.dump(2), "test"), kPlace)).dump(), json.dump());
}

TEST(Spec, RoundTripsThroughText) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    expect_round_trip(random.llama(), llama_from_json);
    expect_round_trip(random.train(), read_as<TrainSpec>);
    expect_round_trip(random.data(), read_as<DataSpec>);
    expect_round_trip(random.run(), run_spec_from_json);
  }
}

TEST(Spec, DefaultsMatchTheStructs) {
  EXPECT_EQ(to_json(fields_of<TrainSpec>().read(Json::object(), kPlace)), to_json(TrainSpec{}));
  EXPECT_EQ(to_json(llama_from_json(Json::object(), kPlace)), to_json(LlamaSpec{}));
  const RunSpec run = run_spec_from_json(Json::object(), kPlace);
  EXPECT_EQ(run.model, to_json(LlamaSpec{})) << "reading fills in all fields of the model";
  for (const auto& field : spec_fields("train")) EXPECT_EQ(field.fallback, to_json(TrainSpec{})[field.name]);
}

TEST(LlamaSpecJson, ErrorsNameFieldRangeAndPlace) {
  EXPECT_EQ(llama_error(R"({"n_layer": 4})"),
            "unknown_name: x.lua:5: unknown field 'n_layer' of model\n  hint: did you mean 'n_layers'?");
  EXPECT_EQ(llama_error(R"({"n_layers": 0})"),
            "invalid_value: x.lua:5: model.n_layers must be an integer between 1 and 10000, but is 0");
  EXPECT_THAT(llama_error(R"({"norm": "rms"})"), is_error("invalid_value", "model.norm", "'rmsnorm'",
                                                          "'layernorm'", "'layernorm_without_parameters'"));
  EXPECT_THAT(llama_error(R"({"dim": 250, "n_heads": 8})"),
              is_error("invalid_value", "model.dim", "250", "model.n_heads", "8"));
  EXPECT_THAT(llama_error(R"({"dim": 24, "n_heads": 8})"),
              HasSubstr("a head of 3 dimensions cannot be rotated"));
  EXPECT_THAT(llama_error(R"({"head_dim": 63})"), HasSubstr("a head of 63 dimensions"));
  EXPECT_THAT(llama_error(R"({"n_heads": 8, "n_kv_heads": 3})"),
              is_error("invalid_value", "8", "model.n_kv_heads", "3"));
  EXPECT_THAT(llama_error(R"({"rope_scaling": {"facto": 8}})"),
              is_error("unknown_name", "'facto'", "model.rope_scaling", "'factor'"));
  EXPECT_THAT(llama_error(R"({"rope_scaling": {"factor": 8, "low_freq_factor": 4}})"),
              HasSubstr("must be below"));
  EXPECT_THAT(llama_error(R"({"rope_scaling": 8})"), is_error("invalid_value", "model.rope_scaling"));
}

TEST(LlamaSpecJson, RefusesChoicesThatContradictEachOther) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"qk_norm": "heads"})", "model.qk_norm must be one of 'none', 'per_head', 'whole'"},
      {R"({"attention_bias": true})", "model.attention_bias must be one of 'none', 'qkv', 'all'"},
      {R"({"norm_placement": "post"})", "model.norm_placement must be one of 'before', 'after', 'both'"},
      {R"({"activation": "relu"})", "model.activation must be one of 'silu', 'gelu', 'gelu_tanh'"},
      {R"({"window_rope_theta": 10})", "model.window_rope_theta without model.window"},
      {R"({"window": 8, "window_rope_theta": 10, "position": "alibi"})", "no layer has rotary embedding"},
      {R"({"residual_scale": 0})", "model.residual_scale is 0"},
      {R"({"logits_soft_cap": -1})", "model.logits_soft_cap must be"},
      {R"({"window": -1})", "model.window must be an integer between 0"},
      {R"({"full_attention_layers": [0]})", "model.full_attention_layers without model.window"},
      {R"({"window": 8, "full_attention_layers": [4]})", "lists layer 4, but the model has 4 layers"},
      {R"({"full_attention": {"kv_heads": 2}})", "model.full_attention without model.window"},
      {R"({"window": 8, "full_attention": {"kv_heads": 3}})",
       "not a multiple of model.full_attention.kv_heads"},
      {R"({"window": 8, "full_attention": {"head_dim": 64}})", "without model.window_rope_theta"},
      {R"({"window": 8, "window_rope_theta": 9, "full_attention": {"head_dim": 63}})", "(63) is odd"},
      {R"({"window": 8, "window_rope_theta": 9, "rotary_fraction": 0.5, "full_attention": {"head_dim": 64}})",
       "model.full_attention.head_dim with model.rotary_fraction"},
      {R"({"layers_without_rope": [2, 1]})", "lists layer 1 after layer 2"},
      {R"({"layers_without_rope": [1, 1]})", "lists layer 1 after layer 1"},
      {R"({"layers_without_rope": "all"})", "model.layers_without_rope must be a list of integers"},
      {R"({"layers_without_rope": [0.5]})", "model.layers_without_rope must be a list of integers"},
      {R"({"position": "alibi", "layers_without_rope": [0]})", "no layer has rotary embedding"},
      {R"({"n_experts": 2, "experts_per_token": 3})", "(3) is above model.n_experts (2)"},
      {R"({"dense_layers": [0]})", "model.dense_layers without model.n_experts"},
      {R"({"shared_expert_ffn_dim": 8})", "model.shared_expert_ffn_dim without model.n_experts"},
      {R"({"expert_bias": true})", "model.expert_bias without model.n_experts"},
      {R"({"kv_shared_layers": 4})", "leaves none of the 4 layers with its own keys and values"},
      {R"({"window": 8, "full_attention_layers": [3], "kv_shared_layers": 1})",
       "layer 3 has full attention, but no layer with its own keys and values has"},
      {R"({"double_wide_mlp": true})", "model.double_wide_mlp without model.kv_shared_layers"},
      {R"({"per_layer_vocab_size": 300})", "model.per_layer_vocab_size without model.per_layer_input_dim"},
      {R"({"per_layer_input_dim": 8, "per_layer_vocab_size": 200})",
       "model.per_layer_vocab_size (200) is below model.vocab_size (256)"},
      {R"({"per_layer_input_dim": 8, "norm_placement": "after"})",
       "model.per_layer_input_dim with model.norm_placement"},
      {R"({"kv_shared_layers": 1, "norm_placement": "after"})",
       "model.kv_shared_layers with model.norm_placement"},
      {R"({"kv_shared_layers": 1, "mamba": {"heads": 8}})", "model.kv_shared_layers with model.mamba"},
      {R"({"kv_shared_layers": 1, "n_kv_heads": 8, "head_dim": 96, "latent": {"kv_rank": 8}})",
       "model.latent with model.kv_shared_layers"},
      {R"({"experts_beside_mlp": true})", "model.experts_beside_mlp without model.n_experts"},
      {R"({"n_experts": 2, "experts_beside_mlp": true})", "without model.norm_placement"},
      {R"({"n_experts": 2, "experts_beside_mlp": true, "norm_placement": "both", "shared_expert_ffn_dim": 8})",
       "model.experts_beside_mlp with model.shared_expert_ffn_dim"},
      {R"({"router": {"scores": "sigmoid"}})", "model.router without model.n_experts"},
      {R"({"n_experts": 6, "router": {"groups": 4}})", "model.router.groups (4) does not divide"},
      {R"({"n_experts": 4, "router": {"groups": 4}})", "into groups of at least 2"},
      {R"({"n_experts": 8, "experts_per_token": 3, "router": {"groups": 4}})",
       "model.router.kept_groups (1) of 4"},
      {R"({"delta_net": {"key_heads": 4, "value_heads": 6}})",
       "is not a multiple of model.delta_net.key_heads (4)"},
      {R"({"delta_net": {"key_heads": 4}})", "model.delta_net.value_heads (0)"},
      {R"({"delta_net": {"key_heads": 4, "value_heads": 4}, "window": 8})",
       "model.window with model.delta_net"},
      {R"({"mamba": {"heads": 4, "groups": 3}})", "is not a multiple of model.mamba.groups (3)"},
      {R"({"mamba": {"heads": 4}, "window": 8})", "model.window with model.mamba"},
      {R"({"mamba": {"heads": 4}, "delta_net": {"key_heads": 4, "value_heads": 4}})",
       "model.mamba with model.delta_net"},
      {R"({"layers_without_mlp": [0], "norm_placement": "after"})",
       "model.layers_without_mlp without model.norm_placement = \"before\""},
      {R"({"layers_without_mlp": [0], "layer_scale": true})",
       "model.layers_without_mlp with model.layer_scale"},
      {R"({"n_experts": 4, "dense_layers": [1], "layers_without_mlp": [1]})", "both list layer 1"},
      {R"({"position": "none", "layers_without_rope": [0]})",
       "model.layers_without_rope with model.position = \"none\""},
      {R"({"latent": {"kv_rank": 8, "rope_dim": 8}, "n_kv_heads": 8, "attention_gate": true})",
       "model.latent with model.attention_gate"},
      {R"({"latent": {"kv_rank": 8}})", "as many key/value heads as query heads"},
      {R"({"latent": {"kv_rank": 8}, "n_kv_heads": 8})", "model.latent.rope_dim (64) is not below"},
      {R"({"latent": {"kv_rank": 8}, "qk_norm": "per_head"})", "model.latent with model.qk_norm"},
      {R"({"latent": {"kv_rank": 8}, "layers_without_rope": [0]})",
       "model.latent with model.layers_without_rope"},
      {R"({"latent": {"kv_rank": 8}, "attention_bias": "qkv"})", "model.latent with model.attention_bias"},
      {R"({"rotary_fraction": 0.01})", "a head of 0 dimensions cannot be rotated"},
      {R"({"rope_scaling": {"type": "longrope"}})", "give each 16 numbers"},
      {R"({"rope_scaling": {"type": "ntk"}})", "must be one of 'llama3', 'linear', 'yarn'"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 2, "beta_fast": 1}})",
       "beta_slow must be below beta_fast"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 2, "beta_slow": 0}})", "beta_slow must be positive"}};
  for (const auto& [json, message] : cases) EXPECT_THAT(llama_error(json), HasSubstr(message)) << json;
  EXPECT_EQ(llama_from_json({{"head_dim", 7}, {"position", "alibi"}}, kPlace).head_size(), 7);
  EXPECT_TRUE(llama_from_json({{"layers_without_rope", Json::object()}}, kPlace).layers_without_rope.empty());
}

TEST(LlamaSpecJson, IndivisibleHeadIsAcceptedWithHeadDim) {
  EXPECT_EQ(llama_from_json({{"dim", 250}, {"n_heads", 8}, {"head_dim", 32}}, kPlace).head_size(), 32);
}

TEST(LlamaSpecJson, CheckpointExcludesOtherFields) {
  EXPECT_EQ(to_json(llama_from_json({{"checkpoint", "/m"}}, kPlace)), Json({{"checkpoint", "/m"}}));
  EXPECT_THAT(llama_error(R"({"checkpoint": "/m", "dim": 64})"), is_error("conflict", "model.dim", "'/m'"));
}

TEST(ValidateModel, UnknownKindNamesTheNearest) {
  EXPECT_EQ(validate_model("llama", {{"n_layers", 2}}, kPlace)["n_layers"], 2);
  EXPECT_THAT(error_of([] { validate_model("lama", Json::object(), kPlace); }),
              AllOf(HasSubstr("unknown kind of model 'lama'"), HasSubstr("did you mean 'llama'?")));
}

TEST(DataSpecJson, RefusesIgnoredAndMissingFields) {
  EXPECT_THAT(data_error(R"({"kind": "txt"})"), HasSubstr("did you mean 'text'?"));
  EXPECT_THAT(data_error(R"({"path": "/x"})"), is_error("conflict", "data.path", "data.kind", "'random'"));
  EXPECT_THAT(data_error(R"({"kind": "text"})"), HasSubstr("data.path is missing"));
  EXPECT_THAT(data_error(R"({"kind": "tokens", "path": "/x", "extensions": [".h"]})"),
              is_error("conflict", "data.extensions"));
  EXPECT_THAT(data_error(R"({"kind": "text", "path": "/x", "extensions": ["h"]})"), HasSubstr("with a dot"));
}

TEST(TrainSpecJson, ChecksRangesAndProducts) {
  EXPECT_THAT(train_error(R"({"micro_batch": 0})"), is_error("invalid_value", "train.micro_batch", "1"));
  EXPECT_THAT(train_error(R"({"lr": -1})"), is_error("invalid_value", "train.lr", "0"));
  EXPECT_THAT(train_error(R"({"lr": "3e-4"})"), is_error("invalid_value", "train.lr", "0", "\"3e-4\""));
  EXPECT_THAT(train_error(R"({"beta2": 1})"), HasSubstr("must be below 1"));
  EXPECT_THAT(train_error(R"({"seed": -1})"), is_error("invalid_value", "train.seed", "0"));
  EXPECT_THAT(train_error(R"({"dtype": "fp16"})"),
              is_error("invalid_value", "train.dtype", "'fp32'", "'fp64'", "'bf16'"));
  EXPECT_THAT(train_error(R"({"micro_batch": 1000000, "accumulation": 1000000, "seq_len": 1000000})"),
              is_error("invalid_value", "too many tokens", "9007199254740992"));
  EXPECT_THAT(train_error(R"({"global_batch": 4611686018427387904, "seq_len": 64})"),
              is_error("invalid_value", "too many tokens"));
  EXPECT_THAT(train_error(R"({"micro_batch": 4, "accumulation": 2, "global_batch": 12})"),
              is_error("invalid_value", "train.global_batch", "12", "micro_batch", "8"));
}

TEST(TrainSpecJson, LearningRateDecayNeedsItsNumberOfSteps) {
  EXPECT_THAT(train_error(R"({"lr_decay": "cosine"})"), HasSubstr("set train.lr_steps to"));
  EXPECT_THAT(train_error(R"({"lr_decay": "linear", "lr_warmup": 9, "lr_steps": 9})"),
              is_error("invalid_value", "train.lr_warmup", "9"));
  EXPECT_THAT(train_error(R"({"lr_steps": 10})"), is_error("conflict", "train.lr_steps"));
  EXPECT_THAT(train_error(R"({"lr_min": 0.1})"), is_error("conflict", "train.lr_min"));
  EXPECT_THAT(train_error(R"({"lr_decay": "cosin"})"),
              is_error("invalid_value", "'none'", "'linear'", "'cosine'"));
  EXPECT_THAT(train_error(R"({"lr_min": 2})"), HasSubstr("between 0 and 1"));
}

TEST(LearningRate, RisesToItsMaximumAndFallsToItsMinimum) {
  const auto rates = [](const TrainSpec& train) {
    std::vector<double> all;
    for (int64_t step = 0; step < 10; ++step) all.push_back(learning_rate(train, step));
    return all;
  };
  const auto near = [](const std::vector<double>& values) {
    return ::testing::Pointwise(::testing::DoubleNear(1e-12), values);
  };
  TrainSpec train;
  train.lr = 1;
  EXPECT_THAT(rates(train), ::testing::Each(1.0));
  train.lr_warmup = 3;
  EXPECT_THAT(rates(train), near({0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1, 1}));
  train.lr_decay = "linear";
  train.lr_steps = 7;
  EXPECT_THAT(rates(train), near({0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0, 0, 0}));
  train.lr_min = 0.2;
  EXPECT_THAT(rates(train), near({0.25, 0.5, 0.75, 1, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2}));
  train.lr_decay = "cosine";
  const double first = 0.2 + 0.8 * (1 + std::sqrt(0.5)) / 2, last = 0.2 + 0.8 * (1 - std::sqrt(0.5)) / 2;
  EXPECT_THAT(rates(train), near({0.25, 0.5, 0.75, 1, first, 0.6, last, 0.2, 0.2, 0.2}));
}

TEST(RunSpecJson, ErrorsOfPartsAreNamed) {
  EXPECT_THAT(run_error(R"({"tran": {}})"), is_error("unknown_name", "'tran'", "'train'"));
  EXPECT_THAT(run_error(R"({"train": {"stesp": 1}})"), is_error("unknown_name", "'stesp'"));
  EXPECT_THAT(run_error(R"({"train": 3})"), HasSubstr("train must have named fields, but is 3"));
  EXPECT_THAT(run_error(R"({"model": [1]})"), HasSubstr("model must be an object with named fields"));
  EXPECT_THAT(run_error(R"({"model_kind": "mamba"})"), is_error("unknown_name", "'mamba'"));
  EXPECT_THAT(run_error(R"({"plugins": ["lora"]})"), is_error("invalid_value", "\"lora\""));
  EXPECT_THAT(run_error(R"({"plugins": [{"options": {}}]})"), is_error("missing_value", "plugin.name"));
  EXPECT_THAT(run_error(R"({"plugins": {"name": "lora"}})"), HasSubstr("plugins must be a list"));
  EXPECT_THAT(run_error(R"({"purpose": "meassure"})"), is_error("invalid_value", "'measure'"));
  EXPECT_THAT(run_error(R"({"device": "gpu"})"), is_error("invalid_value", "'auto'", "'cpu'", "'cuda'"));
  EXPECT_THAT(run_error(R"({"schema_version": 2})"), is_error("invalid_value", "schema_version", "1", "2"));
  EXPECT_THAT(run_error("[]"), HasSubstr("named fields, but is []"));
}

TEST(RunSpecJson, TheEnvironmentIsTextByName) {
  const RunSpec spec = run_spec_from_json({{"env", {{"NCCL_P2P_DISABLE", "1"}, {"_x2", ""}}}}, kPlace);
  EXPECT_EQ(spec.environment.at("NCCL_P2P_DISABLE"), "1");
  EXPECT_EQ(run_spec_from_json(to_json(spec), kPlace).environment, spec.environment);
  EXPECT_THAT(run_error(R"({"env": {"A": 1}})"), is_error("invalid_value", "env.A", "1"));
  EXPECT_THAT(run_error(R"({"env": {"A": "a\u0000b"}})"), is_error("invalid_value", "env.A"));
  for (const std::string name : {"", "1A", "A B", "A=B", "A-B"})
    EXPECT_THAT(run_error(Json{{"env", {{name, "x"}}}}.dump()),
                HasSubstr("x.lua:5: env: \"" + name + "\" is not a valid name of an environment variable"));
}

TEST(RunSpecJson, ReservedVariablesAreRefused) {
  for (const std::string name : {"RANK", "WORLD_SIZE", "MASTER_PORT", "OMP_NUM_THREADS", "LD_PRELOAD",
                                 "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "OPTRUSH_COLLECTIVE_TIMEOUT"})
    EXPECT_THAT(run_error(Json{{"env", {{name, "1"}}}}.dump()), HasSubstr("a run can't set " + name));
  EXPECT_THAT(run_error(R"({"env": {"MKL_NUM_THREADS": "2"}})"), HasSubstr("use threads = ..."));
  for (const std::string name : {"OMP_WAIT_POLICY", "OMP_PROC_BIND", "PYTORCH_CUDA_ALLOC_CONF", "RANKS"})
    EXPECT_EQ(run_error(Json{{"env", {{name, "1"}}}}.dump()), "");
}

TEST(Merged, ChangesOnlyGivenFields) {
  RunSpec base;
  base.train.lr = 0.5;
  base.model = {{"n_layers", 3}};
  const RunSpec spec = merged(base, {{"train", {{"micro_batch", 8}}}, {"device", "cpu"}}, kPlace);
  EXPECT_EQ(spec.train.micro_batch, 8);
  EXPECT_EQ(spec.train.lr, 0.5);
  EXPECT_EQ(spec.model["n_layers"], 3);
  EXPECT_EQ(spec.device, "cpu");
}

TEST(Merged, AnotherKindOfDataStartsFromDefaults) {
  RunSpec base;
  base.data = {.kind = "text", .path = "/docs", .extensions = {".h"}};
  EXPECT_EQ(merged(base, {{"data", {{"kind", "random"}}}}, kPlace).data.path, "");
  EXPECT_EQ(merged(base, {{"data", {{"kind", "text"}, {"path", "/src"}}}}, kPlace).data.extensions.size(),
            1U);
}

TEST(Merged, CheckpointReplacesTheModel) {
  EXPECT_EQ(merged({}, {{"model", {{"checkpoint", "/m"}}}}, kPlace).model, Json({{"checkpoint", "/m"}}));
  const RunSpec small = merged({}, {{"model", {{"dim", 64}}}}, kPlace);
  EXPECT_EQ(merged(small, {{"model", {{"checkpoint", "/m"}}}}, kPlace).model, Json({{"checkpoint", "/m"}}));
}

TEST(Merged, AnotherKindOfModelStartsFromDefaults) {
  const RunSpec stack =
      merged({}, {{"model_kind", "operator"}, {"model", {{"op", "mlp"}, {"dim", 8}}}}, kPlace);
  EXPECT_EQ(stack.model, Json({{"op", "mlp"},
                               {"dim", 8},
                               {"n_heads", 16},
                               {"ffn_dim", 4096},
                               {"vocab_size", 32000},
                               {"repeat", 1}}));
  EXPECT_EQ(merged(stack, {{"model", {{"repeat", 2}}}}, kPlace).model["dim"], 8);
  EXPECT_THAT(settings_error(R"({"model": {"n_layers": 4}})", stack), is_error("unknown_name", "'n_layers'"));
}

TEST(RunSpec, AKindOfEarlierReportsIsRead) {
  const RunSpec spec = run_spec_from_json(
      Json::parse(R"({"model_kind": "swiglu_stack", "model": {"dim": 8, "ffn_dim": 12, "n_layers": 3}})"),
      kPlace);
  EXPECT_EQ(spec.model_kind, "operator");
  const Json fields = {{"op", "mlp"}, {"dim", 8}, {"ffn_dim", 12}, {"repeat", 3}};
  for (const auto& [name, value] : fields.items()) EXPECT_EQ(spec.model.at(name), value) << name;
}

TEST(Merged, RefusesInvalidSettingsOfARung) {
  EXPECT_EQ(settings_error(R"({"train": {"micro_batch": 8}})"), "");
  EXPECT_EQ(
      settings_error(R"({"train": {"micro_bach": 8}})"),
      "unknown_name: x.lua:5: unknown field 'micro_bach' of train\n  hint: did you mean 'micro_batch'?");
  EXPECT_THAT(settings_error(R"({"trian": {}})"), is_error("unknown_name", "'trian'", "'train'"));
  EXPECT_THAT(settings_error(R"({"round": 3})"), is_error("unknown_name", "'round'"));
  EXPECT_THAT(settings_error(R"({"train": {"lr": null}})"), is_error("invalid_value", "train.lr"));
  EXPECT_THAT(settings_error(R"({"model": {"n_heads": 6}})"), HasSubstr("not a multiple"));
  RunSpec base;
  base.model = {{"checkpoint", "/m"}};
  EXPECT_THAT(settings_error(R"({"model": {"n_layers": 2}})", base), is_error("conflict", "model.n_layers"));
}

Json json_schema(const OptionSchema& field) {
  const bool numbers = field.type.ends_with("[]"), list = field.type == "list" || numbers;
  Json schema = {{"type", list ? "array" : field.type}};
  if (!field.choices.empty()) schema["enum"] = field.choices;
  if (!field.min.is_null()) schema["minimum"] = field.min;
  if (!field.max.is_null()) schema["maximum"] = field.max;
  if (list) schema["items"] = {{"type", numbers ? field.type.substr(0, field.type.size() - 2) : "string"}};
  if (field.type != "object" && !field.fallback.is_null()) schema["default"] = field.fallback;
  schema["description"] = field.doc;
  return schema;
}

Json json_schema(const std::vector<OptionSchema>& fields) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
  for (const auto& field : fields) {
    schema["properties"][field.name] = json_schema(field);
    if (field.fallback.is_null()) schema["required"].push_back(field.name);
  }
  return schema;
}

Json reference(const std::string& name) { return {{"$ref", "#/$defs/" + name}}; }

TEST(RunSpecSchema, TheFileIsMadeFromTheFields) {
  Json schema = {
      {"description", "Complete specification of one run. `optrush worker --spec FILE` repeats it."}};
  schema.update(json_schema(spec_fields("run")));
  schema["properties"]["env"]["additionalProperties"] = {{"type", "string"}};
  schema["properties"]["plugins"]["items"] = reference("plugin_use");
  for (const char* part : {"data", "train", "validate", "save", "sample", "plugin_use", "rope_scaling",
                           "router", "latent", "delta_net", "full_attention", "mamba"}) {
    schema["$defs"][part] = json_schema(spec_fields(part));
    if (schema["properties"].contains(part)) schema["properties"][part] = reference(part);
  }
  for (const auto& kind : model_kinds()) {
    schema["$defs"][kind.name] = json_schema(kind.fields());
    schema["allOf"].push_back({{"if", {{"properties", {{"model_kind", {{"const", kind.name}}}}}}},
                               {"then", {{"properties", {{"model", reference(kind.name)}}}}}});
  }
  for (const char* part : {"rope_scaling", "router", "latent", "delta_net", "full_attention", "mamba"})
    schema["$defs"]["llama"]["properties"][part] = reference(part);
  testing::expect_schema("run_spec", "RunSpec", schema);
}

TEST(SpecFields, EverySectionIsDocumented) {
  for (const std::string section : {"run", "train", "data", "llama", "rope_scaling", "router", "latent",
                                    "delta_net", "mamba", "operator"})
    for (const auto& field : spec_fields(section))
      EXPECT_FALSE(field.doc.empty()) << section << "." << field.name;
  EXPECT_THAT(error_of([] { spec_fields("tarin"); }), HasSubstr("no section 'tarin'"));
}
}  // namespace
}  // namespace optrush
