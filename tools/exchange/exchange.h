#pragma once
#include <filesystem>
#include <string>
#include <vector>

// Values that go to other programs, or are compared with theirs. Each function is a command of optrush-worker
// and returns the exit code.
namespace optrush {
/// Writes the initial state of a run for other programs: a Hugging Face folder (config.json,
/// model.safetensors) with the initial values, and tokens.safetensors with `tokens` (steps, sequences,
/// seq_len + 1), warm-up included. Plugins are left out.
int export_command(const std::filesystem::path& spec, const std::filesystem::path& out);

struct WeightsRequest {
  std::filesystem::path run;  ///< folder of a run with a saved state, or of the state
  std::filesystem::path out;
  bool merge = false;  ///< merge an adapter into the model's matrices
  std::string dtype;   ///< fp32, fp64 or bf16; empty: the type of the training
};
/// Writes trained weights in the formats of other programs: config.json and model.safetensors of
/// transformers, or for an adapter of a frozen model adapter_config.json and adapter_model.safetensors of
/// PEFT.
int weights_command(const WeightsRequest&);

struct ForwardRequest {
  std::string model;                  ///< Hugging Face folder
  std::filesystem::path tokens, out;  ///< safetensors
  std::string dtype = "fp32", device = "auto";
  bool gradients = false;
  std::vector<std::string> plugins;  ///< NAME[:key=value,...]
  std::vector<std::string> plugin_path;
};

/// Reads int64 "input_ids" (B, S) and writes "logits" (B, S, V), "loss" (mean next-token loss) and, with
/// `gradients`, "grad.<parameter>" of every trainable parameter, to compare with other programs.
int forward_command(const ForwardRequest&);
}  // namespace optrush
