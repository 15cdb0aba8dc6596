#include "module_names.h"

#include <algorithm>

#include "linear_groups/names.h"
#include "optrush/error.h"

namespace optrush::lora {
bool is_saved(std::string_view path, std::string_view name) {
  for (size_t end = path.find('.');; end = path.find('.', end + 1)) {
    if (path.substr(0, end).ends_with(name)) return true;
    if (end == std::string_view::npos) return false;
  }
}

Patterns::Patterns(std::string option, const Json& values) : option_(std::move(option)) {
  for (const auto& [text, value] : values.items()) {
    try {
      patterns_.push_back({text, std::regex("(.*\\.)?(" + text + ")"), value.get<double>()});
    } catch (const std::regex_error& e) {
      throw Error(ErrorCode::invalid_value,
                  option_ + " has '" + text + "', which is not a regular expression: " + e.what(),
                  "name a linear layer, for example v_proj or layers\\.0\\.self_attn\\.v_proj");
    }
  }
}

double Patterns::value_of(const std::string& path, double otherwise) {
  const Pattern* found = nullptr;
  for (Pattern& pattern : patterns_) {
    if (!std::regex_match(path, pattern.expression)) continue;
    pattern.used = true;
    if (found != nullptr)
      throw Error(
          ErrorCode::conflict,
          option_ + " has two patterns for '" + path + "': '" + found->text + "' and '" + pattern.text + "'",
          "write patterns of which one matches a layer");
    found = &pattern;
  }
  return found == nullptr ? otherwise : found->value;
}

void Patterns::refuse_unused(const std::vector<std::string>& paths) const {
  for (const Pattern& pattern : patterns_) {
    if (pattern.used) continue;
    std::vector<std::string> names;
    for (const auto& path : paths) names.push_back(last_name(path));
    std::ranges::sort(names);
    std::string known;
    for (auto name = names.begin(); name != names.end(); name = std::ranges::upper_bound(names, *name))
      known += (known.empty() ? "" : ", ") + *name;
    throw Error(ErrorCode::unknown_name,
                option_ + " has '" + pattern.text + "', which matches no layer of target_modules",
                "one of: " + known + "; or the end of a path, such as " + paths.back());
  }
}
}  // namespace optrush::lora
