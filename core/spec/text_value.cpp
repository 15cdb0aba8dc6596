#include "spec/text_value.h"

#include <algorithm>

namespace optrush {
namespace {
constexpr int64_t kMostBrackets = 1000;
}  // namespace

Json text_value(const std::string& text, const std::string& type) {
  if (type == "string") return text;
  // Deeply nested text is refused, because the parser copies level by level.
  if (std::ranges::count_if(text, [](char c) { return c == '[' || c == '{'; }) > kMostBrackets) return text;
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}
}  // namespace optrush
