#include "script/api.h"

#include <algorithm>
#include <cctype>

namespace optrush {
namespace {
constexpr std::string_view kMap = "table<string, ";

Type parse(const std::string& text) {
  if (text.ends_with("[]")) return {Type::Form::list, text.substr(0, text.size() - 2)};
  if (text.starts_with(kMap))
    return {Type::Form::map, text.substr(kMap.size(), text.size() - kMap.size() - 1)};
  return {Type::Form::name, text};
}
}  // namespace

std::vector<Type> alternatives(const std::string& type) {
  std::vector<Type> types;
  const size_t end = type.size() - (type.ends_with('?') ? 1 : 0);
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= end; ++i) {
    if (i == end || (type[i] == '|' && depth == 0)) {
      types.push_back(parse(type.substr(begin, i - begin)));
      begin = i + 1;
    } else if (type[i] == '<') {
      ++depth;
    } else if (type[i] == '>') {
      --depth;
    }
  }
  return types;
}

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
