#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace optrush {
struct ForwardRequest {
  std::string model;                  ///< Hugging Face folder
  std::filesystem::path tokens, out;  ///< safetensors
  std::string dtype = "fp32", device = "auto";
  bool gradients = false;
  std::vector<std::string> plugins;  ///< NAME[:key=value,...]
  std::vector<std::string> plugin_path;
};

/// Reads int64 "input_ids" (B, S); writes "logits" (B, S, V), "loss" (mean next-token loss) and, asked for,
/// "grad.<parameter>" of every trainable parameter: any checkpoint, any plugins, against any other program.
int forward_command(const ForwardRequest&);
}  // namespace optrush
