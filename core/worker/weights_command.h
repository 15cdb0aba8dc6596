#pragma once
#include <filesystem>
#include <string>

namespace optrush {
struct WeightsRequest {
  std::filesystem::path run;  ///< folder of a run with a saved state, or that state's own
  std::filesystem::path out;
  bool merge = false;  ///< an adapter into the model's matrices
  std::string dtype;   ///< fp32, fp64 or bf16; empty: as it was trained
};
/// Writes what a run has trained as other programs read it: config.json and model.safetensors of Hugging
/// Face's transformers, or, of an adapter beside a frozen model, adapter_config.json and
/// adapter_model.safetensors of PEFT.
int weights_command(const WeightsRequest&);
}  // namespace optrush
