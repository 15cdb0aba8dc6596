#pragma once
#include <set>
#include <string>
#include <string_view>

namespace optrush {
/// "q_proj" of "model.layers.0.self_attn.q_proj".
std::string last_name(const std::string& path);

/// Whether `name` names the module, as in PEFT's target_modules: its path, or the end of it after a dot.
bool is_target(const std::string& path, std::string_view name);

/// "one of: k_proj, q_proj", for a hint; "" without names.
std::string one_of(const std::set<std::string>& names);
}  // namespace optrush
