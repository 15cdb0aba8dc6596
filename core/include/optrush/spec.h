#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/json.h"

namespace optrush {
/// llama3: Llama 3.1 model card. linear: every frequency divided by `factor` (arXiv:2306.15595). yarn:
/// arXiv:2309.00071. longrope: each frequency divided by a separate factor (arXiv:2402.13753). proportional:
/// only the first `fraction` of the pairs is rotated, as in Gemma 4.
enum class RopeType : uint8_t { llama3, linear, yarn, longrope, proportional };

/// Rescaling of the rotary frequencies for longer sequences ("rope_scaling" in config.json).
struct RopeScaling {
  RopeType type = RopeType::llama3;
  double factor = 1;  ///< 1: equal frequencies; longrope: longest over original sequence
  double low_freq_factor = 1, high_freq_factor = 4;  ///< llama3
  int64_t original_max_position = 8192;              ///< llama3, yarn, longrope
  double beta_fast = 32, beta_slow = 1;              ///< yarn: rotations within the original context
  /// yarn and longrope: factor of cosine and sine. 0: 0.1 ln(factor) + 1 for yarn, and
  /// sqrt(1 + ln(factor) / ln(original_max_position)) for longrope.
  double attention_factor = 0;
  bool truncate = true;  ///< yarn: the ramp begins and ends at whole dimensions
  /// yarn: the scores of attention are multiplied by (0.1 score_mscale ln(factor) + 1)^2, as in DeepSeek V3.
  double score_mscale = 0;
  /// yarn: queries times 1 + query_beta ln(1 + floor(position / original_max_position)), as in Ministral 3.
  double query_beta = 0;
  /// longrope: divisors of the frequencies, for sequences up to original_max_position and for longer ones.
  std::vector<double> short_factor, long_factor;
  double fraction = 1;  ///< proportional: part of the pairs of dimensions that is rotated
  /// Whether it differs from no scaling.
  bool rescales() const {
    return factor != 1 || fraction != 1 || query_beta != 0 || type == RopeType::longrope ||
           (type == RopeType::yarn && attention_factor != 0 && attention_factor != 1);
  }
  bool operator==(const RopeScaling&) const = default;
};

enum class NormKind : uint8_t { rmsnorm, layernorm, layernorm_without_parameters };
/// before: x + f(norm(x)), as Llama. after: x + norm(f(x)), as OLMo 2 (arXiv:2501.00656). both: x +
/// norm(f(norm(x))), as Gemma 3 (arXiv:2503.19786).
enum class NormPlacement : uint8_t { before, after, both };
/// Activation of the gate of an MLP. silu: SwiGLU. gelu: GEGLU (arXiv:2002.05202). gelu_tanh: GEGLU with the
/// approximation of GELU by tanh (arXiv:1606.08415). clamped_silu: x sigmoid(1.702 x) of a gate up to 7,
/// times 1 + up within [-7, 7], as gpt-oss (arXiv:2508.10925). relu2: the MLP has no gate, and computes
/// down(relu(up(x))^2) (arXiv:2109.08668), as Nemotron-H.
enum class Activation : uint8_t { silu, gelu, gelu_tanh, clamped_silu, relu2 };
/// RMSNorm of queries and keys before their rotation. per_head: of each head, as Qwen 3 (arXiv:2505.09388).
/// whole: of all heads together, as OLMo 2.
enum class QkNorm : uint8_t { none, per_head, whole };
/// Biases of attention. qkv: of queries, keys and values, as Qwen 2. all: also of the output projection.
enum class AttentionBias : uint8_t { none, qkv, all };
/// rope: rotary embedding (arXiv:2104.09864). alibi: linear biases of scores (arXiv:2108.12409). none:
/// attention sees no positions (NoPE, arXiv:2305.19466).
enum class PositionKind : uint8_t { rope, alibi, none };

/// Scores of the experts. Normalized softmax is also the softmax of the chosen logits.
enum class RouterScores : uint8_t { softmax, sigmoid };
/// logits: a trained bias of the logits. choice: a bias of the scores that choose the experts, and not of
/// their weights; it is not trained by gradients (arXiv:2408.15664).
enum class RouterBias : uint8_t { none, logits, choice };
/// How a router makes the weights of a token's experts: scores of all experts; the groups with the largest
/// sum of their two best scores (arXiv:2412.19437, section 2.1.2); the experts with the largest scores in
/// these; their scores, normalized or not; times `scale`.
struct Router {
  RouterScores scores = RouterScores::softmax;
  RouterBias bias = RouterBias::none;
  int64_t groups = 1, kept_groups = 1;
  double scale = 1;
  bool operator==(const Router&) const = default;
};

/// Multi-head latent attention (arXiv:2405.04434, section 2.1): keys and values of all heads are products of
/// a vector of width `kv_rank`. The last `rope_dim` dimensions of a head of queries and keys are rotated, and
/// all heads share the rotated ones of a key.
struct LatentAttention {
  int64_t kv_rank = 0;  ///< 0: no latent attention
  int64_t q_rank = 0;   ///< width of the vector from which queries are made; 0: the model's
  int64_t rope_dim = 64, value_dim = 128;
  bool interleaved = true;  ///< rotated pairs are neighbours; false: halves, as in Llama
  bool operator==(const LatentAttention&) const = default;
};

/// Gated DeltaNet (arXiv:2412.06464): each head of values has a state, a matrix that maps keys to values.
/// With each token it decays, and its value of the token's key is corrected. A head of queries and keys
/// serves value_heads / key_heads heads of values.
struct DeltaNet {
  int64_t key_heads = 0;  ///< heads of queries and keys; 0: no Gated DeltaNet
  int64_t value_heads = 0;
  int64_t key_dim = 128, value_dim = 128;  ///< widths of a head
  int64_t kernel = 4;                      ///< positions of the short convolution
  /// Queries, keys, values and output gates are made by one matrix, and both other gates by another. Rows are
  /// ordered by heads of keys. False: in_proj_qkv, in_proj_z, in_proj_b and in_proj_a, as Qwen 3.5.
  bool joined = false;
  bool operator==(const DeltaNet&) const = default;
};

/// Attention of `full_attention_layers` beside layers with a window, as Gemma 4 has; 0: as in the others.
struct FullAttention {
  int64_t head_dim = 0, kv_heads = 0;
  bool keys_as_values = false;  ///< values are the product of the matrix of keys
  bool operator==(const FullAttention&) const = default;
};

/// Mamba 2 (arXiv:2405.21060): each head has a state, a matrix (state, head_dim), that decays with each token
/// and to which the product of the token's input and value is added.
struct Mamba2 {
  int64_t heads = 0;             ///< 0: no Mamba 2
  int64_t groups = 1;            ///< a group of heads has the same inputs and outputs of the state: B and C
  int64_t head_dim = 64;         ///< width of a value
  int64_t state = 128;           ///< rows of a state
  int64_t kernel = 4;            ///< positions of the short convolution
  bool convolution_bias = true;  ///< bias of the convolution
  bool projection_bias = false;  ///< biases of the first and the last matrix
  bool norm_by_group = false;    ///< RMSNorm of the values of each group; false: of all values, as Granite 4
  double min_step = 0;           ///< a smaller time step is replaced by this, as Nemotron-H has
  bool operator==(const Mamba2&) const = default;

  int64_t values() const { return heads * head_dim; }
  /// Channels of the convolution: the values, B and C.
  int64_t channels() const { return values() + 2 * groups * state; }
};

/// A decoder in the manner of Llama (arXiv:2302.13971), by choices. Dimensions as published; `dim` is D,
/// `ffn_dim` the inner width of the MLP.
struct LlamaSpec {
  int64_t vocab_size = 256, dim = 256, n_layers = 4, n_heads = 8, n_kv_heads = 4;
  int64_t head_dim = 0;  ///< 0: dim / n_heads
  int64_t ffn_dim = 688;
  bool double_wide_mlp = false;  ///< MLPs of the `kv_shared_layers` have width 2 ffn_dim, as in Gemma 4 E2B
  Activation activation = Activation::silu;
  NormKind norm = NormKind::rmsnorm;
  NormPlacement norm_placement = NormPlacement::before;
  double norm_eps = 1e-5;
  QkNorm qk_norm = QkNorm::none;
  bool value_norm = false;   ///< RMSNorm without a weight of each head of values
  bool layer_scale = false;  ///< a block's output is multiplied by a number, which is not trained
  AttentionBias attention_bias = AttentionBias::none;
  double attention_scale = 0;  ///< of the scores, before the softmax; 0: 1 / sqrt(head size)
  /// Factors of embeddings and of outputs of attention and MLP, divisor of logits (Granite 3.0, section 2).
  double embedding_scale = 1, residual_scale = 1, logits_divisor = 1;
  /// Soft caps of scores and of logits: cap tanh(x / cap), as Gemma 2 (arXiv:2408.00118); 0: none.
  double attention_soft_cap = 0, logits_soft_cap = 0;
  /// Each head has a trained score that takes part in the softmax and has no value (arXiv:2309.17453).
  bool attention_sinks = false;
  /// The output of attention is multiplied by the sigmoid of a gate, which the matrix of queries makes after
  /// the query of each head (arXiv:2505.06708).
  bool attention_gate = false;
  LatentAttention latent;  ///< in place of attention with heads of keys and values
  DeltaNet delta_net;      ///< in place of attention, except in `full_attention_layers`
  Mamba2 mamba;            ///< the same
  PositionKind position = PositionKind::rope;
  double rope_theta = 10000;
  double rotary_fraction = 1;  ///< the part of a head, from its first dimension, that is rotated
  RopeScaling rope_scaling;
  std::vector<int64_t> layers_without_rope;  ///< they see no positions (NoPE, arXiv:2305.19466)
  /// Sliding window attention (arXiv:2310.06825): a token sees itself and window - 1 tokens before; 0: all.
  int64_t window = 0;
  /// Layers that have full attention although `window`, `delta_net` or `mamba` is set.
  std::vector<int64_t> full_attention_layers;
  FullAttention full_attention;
  /// Number of layers at the end without matrices of keys and values, as in Gemma 4 E2B. Each uses the keys
  /// and values of one earlier layer: the last one of its own kind, with a window or with full attention.
  int64_t kv_shared_layers = 0;
  /// Width P of the vector that each layer gets for each token, from a table of tokens and from the
  /// embedding; a block adds a projection of it, times a gate, as in Gemma 4 E2B; 0: none.
  int64_t per_layer_input_dim = 0;
  int64_t per_layer_vocab_size = 0;  ///< rows of that table; 0: vocab_size
  /// Rotary base of the layers with a window, which `rope_scaling` then does not rescale; 0: as all layers.
  double window_rope_theta = 0;
  /// Mixture of experts in place of the MLP (arXiv:1701.06538, 2401.04088): each token passes the
  /// `experts_per_token` MLPs of the largest router weights; 0: none.
  int64_t n_experts = 0, experts_per_token = 2;
  int64_t expert_ffn_dim = 0;  ///< SwiGLU width of an expert; 0: ffn_dim
  /// SwiGLU width of an expert beside them that each token passes, weighted by the sigmoid of its own gate,
  /// as Qwen 2 MoE (arXiv:2407.10671); 0: none.
  int64_t shared_expert_ffn_dim = 0;
  bool shared_expert_gate = true;  ///< false: the shared expert has weight 1, as in DeepSeek V3
  bool expert_bias = false;        ///< biases of the three matrices of an expert
  /// A layer with experts has an MLP of width ffn_dim beside them. Both have norms before and after them, and
  /// the router has a norm, a trained weight of its input, and a trained factor of each expert, as Gemma 4
  /// 26B.
  bool experts_beside_mlp = false;
  bool normalize_router = true;  ///< the weights of a token's experts add up to 1
  Router router;
  std::vector<int64_t> dense_layers;        ///< layers that have an MLP although `n_experts` is set
  std::vector<int64_t> layers_without_mlp;  ///< x + f(norm(x)) alone, as Nemotron-H has
  bool tie_embeddings = true;
  double init_std = 0.02;
  std::string checkpoint;  ///< folder with config.json and safetensors, which set every field above

  int64_t head_size() const { return head_dim != 0 ? head_dim : dim / n_heads; }
  int64_t head_size(int64_t layer) const;
  int64_t kv_heads(int64_t layer) const;
  bool keys_as_values(int64_t layer) const;
  /// Whether heads of layers differ in number or width.
  bool has_mixed_heads() const { return full_attention.head_dim != 0 || full_attention.kv_heads != 0; }
  int64_t per_layer_vocab() const { return per_layer_vocab_size != 0 ? per_layer_vocab_size : vocab_size; }
  int64_t mlp_width(int64_t layer) const {
    return double_wide_mlp && kv_layer(layer) != layer ? 2 * ffn_dim : ffn_dim;
  }
  /// The layer whose keys and values a layer uses; its own number without `kv_shared_layers`; -1: there is
  /// none.
  int64_t kv_layer(int64_t layer) const;
  /// Whether a layer uses keys and values of another one, or another one uses its own.
  bool shares_kv(int64_t layer) const;
  /// Whether later layers read more of a block's output than the hidden state: model/carried.h.
  bool carries() const { return kv_shared_layers != 0 || per_layer_input_dim != 0; }
  bool has_latents() const { return latent.kv_rank != 0; }
  bool has_delta_net() const { return delta_net.key_heads != 0; }
  bool has_mamba() const { return mamba.heads != 0; }
  /// The field of the linear attention, whose state has a fixed size: "delta_net" or "mamba". Null: none.
  const char* linear_attention() const {
    return has_delta_net() ? "delta_net" : has_mamba() ? "mamba" : nullptr;
  }
  bool has_linear_attention(int64_t layer) const;
  /// Width of a head of values.
  int64_t value_size() const { return has_latents() ? latent.value_dim : head_size(); }
  /// Dimensions of a head that are rotated.
  int64_t rotary_size() const {
    return has_latents() ? latent.rope_dim
                         : static_cast<int64_t>(static_cast<double>(head_size()) * rotary_fraction);
  }
  /// Factor of the attention scores.
  double score_scale(int64_t layer = 0) const;
  /// Window of the attention of a layer; 0: none.
  int64_t window_of(int64_t layer) const;
  bool rotates(int64_t layer) const;
  /// Whether the layer has an MLP or experts.
  bool has_mlp(int64_t layer) const;
  bool has_experts(int64_t layer) const;
  /// Whether MLPs and experts have a gate.
  bool has_gate() const { return activation != Activation::relu2; }
  bool operator==(const LlamaSpec&) const = default;
};

/// Training data. `text`: UTF-8, one token per byte. `tokens`: a token file (docs/reference/formats.md).
struct DataSpec {
  std::string kind = "random", path;
  std::vector<std::string> extensions;  ///< text folders: only these (".h"); empty: every file
};

/// The training step. Sequences per step: global_batch = micro_batch x accumulation x data ranks.
struct TrainSpec {
  int64_t world_size = 1;  ///< processes that train one model together
  int64_t micro_batch = 4, accumulation = 1;
  int64_t global_batch = 0;  ///< 0: derived; another value is checked against the product
  int64_t seq_len = 512, steps = 10, warmup = 3;
  /// Maximum number of passes over the training data; 0: `steps` alone ends the run.
  int64_t epochs = 0;
  /// Every step trains on the first batch, and the last loss has to be below this: a stack that can't learn
  /// one batch by heart is wrong. 0: each step has a separate batch.
  double overfit = 0;
  uint64_t seed = 1;
  double lr = 3e-4;               ///< peak learning rate: see lr_warmup and lr_decay
  int64_t lr_warmup = 0;          ///< steps before lr is reached
  std::string lr_decay = "none";  ///< linear or cosine: from lr_warmup to lr_steps, then constant
  int64_t lr_steps = 0;
  double lr_min = 0;  ///< learning rate after lr_steps, as a fraction of lr
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  std::string dtype = "fp32";  ///< of parameters: fp32, fp64 or bf16
};

/// The loss on held-out data, not part of the step time. The sequences do not depend on rung and mesh.
struct ValidateSpec {
  int64_t every = 0;       ///< steps, including warm-up; also after the last one; 0: never
  int64_t sequences = 32;  ///< of train.seq_len, over all ranks
  /// The validation data. `kind` "held_out": the end of the run's own text or token file, excluded from
  /// training, or different random sequences.
  DataSpec data{.kind = "held_out", .path = {}, .extensions = {}};
  int64_t patience = 0;    ///< end the run after this many validations without a lower loss; 0: never
  bool keep_best = false;  ///< also keep the state of the lowest loss
};

/// Prompts that the trained model continues greedily after the last step.
struct SampleSpec {
  std::vector<std::string> prompts;  ///< none: nothing is sampled
  int64_t tokens = 48;               ///< number of tokens to generate per prompt
};

/// Saving the state of a run, from which another run can continue. Not part of the step time.
struct SaveSpec {
  int64_t every = 0;  ///< steps, including warm-up; also after the last one; 0: never
};

struct PluginUse {
  std::string name;
  Json options = Json::object();
};

/// Purpose of a run: measurement; correctness gate ("probe", "reference" and "repeat": GateCheck in
/// analysis/gate/gate.h); or a repetition at the end to measure the drift of the machine.
enum class Purpose : uint8_t { measure, probe, reference, repeat, drift };
std::string_view to_string(Purpose);

/// Complete specification of one run (docs/schema/run_spec.schema.json).
struct RunSpec {
  std::string experiment, rung;
  Purpose purpose = Purpose::measure;
  int64_t variant = 0, round = 0;
  std::string model_kind = "llama";
  Json model = Json::object();  ///< fields of the model kind, as validate_model() returns them
  DataSpec data;
  TrainSpec train;
  ValidateSpec validate;
  SaveSpec save;
  SampleSpec sample;
  /// Folder of a saved state to continue from; empty: start from the initial values.
  std::string start;
  bool weights_only = false;  ///< take the weights of `start` alone: optimizer, steps and data begin anew
  std::vector<PluginUse> plugins;
  std::string device = "auto";                     ///< auto | cpu | cuda
  int64_t threads = 0;                             ///< CPU threads per operator; 0: all cores
  std::map<std::string, std::string> environment;  ///< additional environment variables of its process
  double timeout_s = 3600;
  std::vector<std::string> plugin_path;
  bool trace = false;  ///< profile one additional step after the timed ones
};

/// The decoder of a run, read from its checkpoint if it has one. Throws an Error for other model kinds.
LlamaSpec llama_of(const RunSpec&);
}  // namespace optrush
