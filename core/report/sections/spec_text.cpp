#include "report/sections/spec_text.h"

#include "base/suggest.h"

namespace optrush {
std::string plain_text(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> leaves_text(const Json& json, const std::string& prefix) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : json.items()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (value.is_object() && !value.empty())
      for (auto& line : leaves_text(value, name)) lines.push_back(std::move(line));
    else
      lines.push_back(name + " = " + plain_text(value));
  }
  return lines;
}

std::string use_text(const Json& use) {
  std::vector<std::string> options;
  for (const auto& [key, value] : use.at("options").items())
    options.push_back(key + " = " + plain_text(value));
  return use.at("name").get<std::string>() + (options.empty() ? "" : " { " + join(options) + " }");
}

std::vector<std::string> changes_text(const Json& variant) {
  std::vector<std::string> lines;
  for (const auto& use : variant.at("added")) lines.push_back("+ " + use_text(use));
  for (const auto& plugin : variant.at("removed")) lines.push_back("- " + plain_text(plugin));
  for (auto& line : leaves_text(variant.at("changed"))) lines.push_back(std::move(line));
  return lines;
}
}  // namespace optrush
