#include <algorithm>
#include <sstream>

#include "base/suggest.h"
#include "checkpoint/checkpoint_files.h"

namespace optrush {
namespace {
/// Names of wrapper modules: of torch.compile, FSDP, activation checkpointing, DDP, DeepSpeed, and of the
/// base of an adapter.
constexpr std::string_view kWrappers[] = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module",
                                          "module",    "_forward_module",      "base_layer"};

/// Name parts in MixtralForCausalLM and here.
constexpr std::pair<std::string_view, std::string_view> kOfMixtral[] = {
    {"block_sparse_moe", "mlp"}, {"w1", "gate_proj"}, {"w2", "down_proj"}, {"w3", "up_proj"}};

std::vector<std::string> split(std::string_view name) {
  std::vector<std::string> parts;
  std::istringstream text{std::string(name)};
  for (std::string part; std::getline(text, part, '.');) parts.push_back(part);
  return parts;
}

bool starts_with(const std::vector<std::string>& parts, const std::vector<std::string>& beginning) {
  return parts.size() > beginning.size() && std::equal(beginning.begin(), beginning.end(), parts.begin());
}
}  // namespace

std::string parameter_name(std::string_view stored) {
  std::vector<std::string> parts = split(stored);
  std::erase_if(parts, [](const auto& part) { return std::ranges::count(kWrappers, part) != 0; });
  if (starts_with(parts, {"base_model", "model"})) parts.erase(parts.begin(), parts.begin() + 2);
  // A user's class that stores the model as self.model.
  if (starts_with(parts, {"model", "model"}) || starts_with(parts, {"model", "lm_head"}))
    parts.erase(parts.begin());
  for (const char* of_model : {"layers", "embed_tokens", "norm"})
    if (starts_with(parts, {of_model})) parts.insert(parts.begin(), "model");
  if (std::ranges::count(parts, kOfMixtral[0].first) != 0)
    for (auto& part : parts)
      for (const auto& [theirs, ours] : kOfMixtral)
        if (part == theirs) part = ours;
  // PEFT adds the name of the adapter: "lora_A.default.weight".
  for (size_t i = 0; i + 1 < parts.size(); ++i)
    if (parts[i].starts_with("lora_") && parts[i + 1] == "default")
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  return join(parts, ".");
}

std::string stored_name(std::string_view parameter, ParameterNames names) {
  std::vector<std::string> parts = split(parameter);
  const bool of_experts = std::ranges::count(parts, "experts") != 0 || std::ranges::count(parts, "gate") != 0;
  if (names == ParameterNames::mixtral && of_experts)
    for (auto& part : parts)
      for (const auto& [theirs, ours] : kOfMixtral)
        if (part == ours) part = theirs;
  return join(parts, ".");
}
}  // namespace optrush
