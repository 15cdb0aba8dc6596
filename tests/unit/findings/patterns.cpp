#include "patterns.h"

#include <map>

namespace optrush::test {
namespace {
/// Compiled once: compiling a pattern takes a thousand times as long as matching it.
const std::regex& compiled(const std::string& pattern) {
  static std::map<std::string, std::regex> all;
  const auto known = all.find(pattern);
  return known != all.end() ? known->second : all.emplace(pattern, std::regex(pattern)).first->second;
}
}  // namespace

bool fits(const std::string& text, std::smatch& groups, const std::string& pattern) {
  return std::regex_match(text, groups, compiled(pattern));
}

bool fits(const std::string& text, const std::string& pattern) {
  return std::regex_match(text, compiled(pattern));
}

bool has(const std::string& text, std::smatch& groups, const std::string& pattern) {
  return std::regex_search(text, groups, compiled(pattern));
}

std::vector<Groups> all_in(const std::string& text, const std::string& pattern) {
  std::vector<Groups> all;
  for (std::sregex_iterator it(text.begin(), text.end(), compiled(pattern)), end; it != end; ++it)
    all.emplace_back(it->begin(), it->end());
  return all;
}

std::string without(const std::string& text, const std::string& pattern) {
  return std::regex_replace(text, compiled(pattern), "");
}

bool check_by(const Sentences& sentences, const std::string& text) {
  for (const auto& [pattern, check] : sentences) {
    std::smatch m;
    if (!fits(text, m, pattern)) continue;
    check(Groups(m.begin(), m.end()));
    return true;
  }
  return false;
}
}  // namespace optrush::test
