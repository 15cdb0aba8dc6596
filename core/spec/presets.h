#pragma once
#include <string>
#include <vector>

#include "optrush/spec.h"

namespace optrush {
struct Preset {
  std::string name, doc;
  LlamaSpec spec;
};
/// Models with published dimensions, and small ones for CPUs.
const std::vector<Preset>& llama_presets();
std::vector<std::string> llama_preset_names();
/// The dimensions of a preset. An Error names the nearest one.
const LlamaSpec& llama_preset(const std::string& name);
}  // namespace optrush
