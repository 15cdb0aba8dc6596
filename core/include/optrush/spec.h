#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/json.h"

namespace optrush {
/// Llama 3 rescaling of the rotary frequencies (Llama 3.1 model card; "rope_type": "llama3" in config.json).
struct RopeScaling {
  double factor = 1;  ///< 1: none
  double low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_max_position = 8192;
  bool operator==(const RopeScaling&) const = default;
};

enum class NormKind : uint8_t { rmsnorm, layernorm, layernorm_without_parameters };

/// A Llama-like decoder (arXiv:2302.13971). Dimensions as published; `dim` is D, `ffn_dim` the SwiGLU width.
struct LlamaSpec {
  int64_t vocab_size = 256, dim = 256, n_layers = 4, n_heads = 8, n_kv_heads = 4;
  int64_t head_dim = 0;  ///< 0: dim / n_heads
  int64_t ffn_dim = 688;
  NormKind norm = NormKind::rmsnorm;
  double norm_eps = 1e-5, rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tie_embeddings = true;
  double init_std = 0.02;
  std::string checkpoint;  ///< folder with config.json and safetensors, which set every field above

  int64_t head_size() const { return head_dim != 0 ? head_dim : dim / n_heads; }
};

/// Training data. `text`: UTF-8 file or folder, one token per byte. `tokens`: a token file
/// (docs/reference/formats.md).
struct DataSpec {
  std::string kind = "random", path;
  std::vector<std::string> extensions;  ///< text folders: only these (".h"); empty: every file
};

/// The training step. Sequences per step over all data ranks: global_batch = micro_batch x accumulation x
/// ranks.
struct TrainSpec {
  int64_t world_size = 1;  ///< processes that train one model together
  int64_t micro_batch = 4, accumulation = 1;
  int64_t global_batch = 0;  ///< 0: derived; another value is checked against the product
  int64_t seq_len = 512, steps = 10, warmup = 3;
  /// Maximum number of passes over the training data; 0: `steps` alone ends the run.
  int64_t epochs = 0;
  /// Every step trains on the first batch, and the last loss has to be below this: a stack that can't learn
  /// one batch by heart is wrong. 0: each step has a batch of its own.
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

/// The loss on held-out data, between steps and not part of their time. The sequences do not depend on the
/// rung and the mesh.
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
/// experiment/gate.h); or a repetition at the end to measure the drift of the machine.
enum class Purpose : uint8_t { measure, probe, reference, repeat, drift };
std::string_view to_string(Purpose);

/// Complete specification of one run (docs/schema/run_spec.schema.json). `optrush worker --spec FILE` repeats
/// it.
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
