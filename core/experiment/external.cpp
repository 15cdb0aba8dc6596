#include "experiment/external.h"

#include "base/fields.h"
#include "base/spec_json.h"

namespace optrush {
namespace {
using Texts = std::map<std::string, std::string>;

Fields<External>::Field texts(Texts External::*member, OptionSchema schema) {
  schema.type = "object";
  schema.fallback = Json::object();
  const auto read = [=](External& external, const Json& json, const std::string& subject,
                        const std::string& where) {
    for (const auto& [name, value] : json.items())
      (external.*member)[name] = checked({.type = "string"}, value, subject + "." + name, where);
  };
  return {schema, read, [=](const External& external) { return Json(external.*member); }};
}

const Fields<External>& fields() {
  using T = External;
  static const auto fields =
      Fields<T>()
          .required(&T::command, {.name = "command", .doc = "the program and its arguments"})
          .optional(&T::folder, {.name = "folder", .doc = "where the command starts"})
          .custom(texts(&T::env, {.name = "env", .doc = "variables that are added to its environment"}))
          .optional(&T::preload, {.name = "preload", .doc = "libraries that the loader takes first"})
          .custom(texts(&T::files, {.name = "files", .doc = "sha256 by path"}))
          .optional(&T::effect, {.name = "effect", .doc = "on arithmetic", .choices = effect_names()});
  return fields;
}
}  // namespace

Json to_json(const External& external) { return fields().write(external); }

External external_from_json(const Json& json, const std::string& where) {
  External external = fields().read(json, "external", where);
  if (external.command.empty()) throw Error("external.command is empty", {}, where);
  return external;
}
}  // namespace optrush
