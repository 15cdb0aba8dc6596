#include "script/types.h"

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
}  // namespace optrush
