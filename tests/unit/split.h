#pragma once
#include <string>
#include <vector>

namespace optrush::test {
/// The parts of a text between `by`.
inline std::vector<std::string> split(const std::string& list, const std::string& by = ", ") {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t at = 0; (at = list.find(by, start)) != std::string::npos; start = at + by.size())
    parts.push_back(list.substr(start, at - start));
  parts.push_back(list.substr(start));
  return parts;
}
}  // namespace optrush::test
