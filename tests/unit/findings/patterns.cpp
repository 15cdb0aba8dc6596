#include "patterns.h"

#include <map>

namespace optrush::test {
const std::regex& compiled(const std::string& pattern) {
  static std::map<std::string, std::regex> all;
  const auto known = all.find(pattern);
  return known != all.end() ? known->second : all.emplace(pattern, std::regex(pattern)).first->second;
}

bool check_by(const Sentences& sentences, const std::string& text) {
  for (const auto& [pattern, check] : sentences) {
    std::smatch m;
    if (!std::regex_match(text, m, compiled(pattern))) continue;
    check(Groups(m.begin(), m.end()));
    return true;
  }
  return false;
}
}  // namespace optrush::test
