#include "script/api.h"

#include <algorithm>
#include <cctype>

#include "script/api_parts.h"

namespace optrush {
bool required(const Parameter& parameter) {
  return parameter.fallback.is_null() && !parameter.type.ends_with('?');
}

std::string Function::title() const {
  if (owner.empty()) return "rush." + name;
  std::string object = owner == "Experiment" ? "exp" : owner;
  object[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(object[0])));
  return object + (property ? "." : ":") + name;
}

const Class* Api::find_class(const std::string& name) const {
  const auto it = std::ranges::find(classes, name, &Class::name);
  return it == classes.end() ? nullptr : &*it;
}

std::vector<std::string> Api::names(const std::string& owner) const {
  std::vector<std::string> names;
  for (const auto& function : functions)
    if (function.owner == owner) names.push_back(function.name);
  return names;
}

const Api& api() {
  static const Api api{api_classes(), api_functions()};
  return api;
}
}  // namespace optrush
