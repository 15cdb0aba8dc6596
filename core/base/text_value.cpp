#include "base/text_value.h"

namespace optrush {
Json text_value(const std::string& text, const std::string& type) {
  if (type == "string") return text;
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}
}  // namespace optrush
