#include "linear_groups/names.h"

namespace optrush {
std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

bool is_target(const std::string& path, std::string_view name) {
  return path == name || path.ends_with("." + std::string(name));
}

std::string one_of(const std::set<std::string>& names) {
  std::string known;
  for (const auto& name : names) known += (known.empty() ? "one of: " : ", ") + name;
  return known;
}
}  // namespace optrush
