#include "experiment/external.h"

#include <algorithm>
#include <cctype>

#include "optrush/error.h"
#include "spec/fields.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
using Texts = std::map<std::string, std::string>;

Fields<External>::Field texts(Texts External::*member, OptionSchema schema) {
  schema.type = "object";
  schema.fallback = Json::object();
  const auto read = [=](External& external, const Json& json, const std::string& subject,
                        const std::string& where) {
    const Json table = checked(schema, json, subject, where);
    for (const auto& [name, value] : table.items())
      (external.*member)[name] = checked({.type = "string"}, value, subject + "." + name, where);
  };
  return {schema, read, [=](const External& external) { return Json(external.*member); }};
}

const Fields<External>& external_fields() {
  using T = External;
  static const auto fields =
      Fields<T>()
          .required(&T::command, {.name = "command", .doc = "the program and its arguments"})
          .optional(&T::folder, {.name = "folder", .doc = "working directory of the command"})
          .optional(&T::preload,
                    {.name = "preload", .doc = "libraries that the dynamic loader loads first (LD_PRELOAD)"})
          .optional(&T::requirements, {.name = "requirements",
                                       .doc = "requirements file of the Python packages that it imports"})
          .optional(&T::packages, {.name = "packages", .doc = "file with the system packages that it needs"})
          .custom(texts(&T::files, {.name = "files", .doc = "SHA-256 of each file, by path"}))
          .optional(&T::effect, {.name = "effect", .doc = "effect on arithmetic", .choices = effect_names()})
          .optional(&T::interleave,
                    {.name = "interleave", .doc = "whether it implements the protocol of interleaved runs"})
          .optional(&T::headline,
                    {.name = "headline", .doc = "whether a headline may name it as the fastest program"})
          .formerly("turns", "interleave");
  return fields;
}
}  // namespace

const std::vector<std::string>& placeholders() {
  static const std::vector<std::string> all = {"{python}",  "{spec}",  "{start}",  "{out}",
                                               "{metrics}", "{trace}", "{worker}", "{world_size}"};
  return all;
}

std::string unknown_placeholder(const std::string& word) {
  const auto in_name = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t open = 0; (open = word.find('{', open)) != std::string::npos; ++open) {
    size_t end = open + 1;
    while (end < word.size() && in_name(word[end])) ++end;
    const bool named = end > open + 1 && end < word.size() && word[end] == '}';
    if (!named || (open > 0 && word[open - 1] == '$')) continue;
    if (auto found = word.substr(open, end + 1 - open);
        std::ranges::find(placeholders(), found) == placeholders().end())
      return found;
  }
  return {};
}

Json to_json(const External& external) { return external_fields().write(external); }

External external_from_json(const Json& json, const std::string& where) {
  External external = external_fields().read(json, "external", where);
  if (external.command.empty()) throw Error(ErrorCode::invalid_value, "external.command is empty", {}, where);
  return external;
}
}  // namespace optrush
