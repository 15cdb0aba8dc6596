#include "optrush/options.h"

#include <algorithm>
#include <array>

#include "base/suggest.h"
#include "base/text.h"
#include "optrush/edit.h"
#include "optrush/error.h"
#include "spec/value.h"

namespace optrush {
namespace {
constexpr std::array<std::string_view, 16> kPhases = {
    "base",  "quantize", "adapter",   "tensor",    "context",   "compile", "checkpoint", "offload",
    "shard", "pipeline", "precision", "gradients", "optimizer", "capture", "prefetch",   "measure"};
constexpr std::array<std::string_view, 5> kEffects = {"exact", "rounding", "precision", "batch", "model"};
static_assert(kPhases.size() == static_cast<size_t>(Phase::measure) + 1);
static_assert(kEffects.size() == static_cast<size_t>(Effect::model) + 1);
const std::vector<std::string> kTypes = {"integer", "number",   "string",  "boolean",
                                         "list",    "integers", "numbers", "folder"};
const std::vector<std::string> kKeys = {"name", "type", "default", "min", "max", "choices", "effects", "doc"};

std::string text_of(const Json& json, const OptionSchema& schema, const std::string& subject,
                    const std::string& where) {
  if (!json.contains(schema.name))
    throw Error(ErrorCode::missing_value, subject + " has no '" + schema.name + "'", {}, where);
  const std::string text = checked(schema, json[schema.name], "'" + schema.name + "' of " + subject, where);
  if (text.empty())
    throw Error(ErrorCode::invalid_value, "'" + schema.name + "' of " + subject + " is empty", {}, where);
  return text;
}

bool numeric(const OptionSchema& schema) {
  return schema.type.starts_with("integer") || schema.type.starts_with("number");
}

/// A bound of a range, converted to the type of the option.
Json bound(const Json& json, const char* key, const OptionSchema& schema, const std::string& where) {
  const auto it = json.find(key);
  if (it == json.end()) return {};
  const std::string subject = std::string("'") + key + "' of option '" + schema.name + "'";
  if (!numeric(schema))
    throw Error(ErrorCode::invalid_value,
                subject + " is allowed for numbers only, not for type " + schema.type, {}, where);
  return checked({.type = schema.type.starts_with("integer") ? "integer" : "number"}, *it, subject, where);
}

/// The field "effects" of an option with choices: the effect of each choice.
std::map<std::string, Effect> effects_of(const Json& json, const OptionSchema& schema,
                                         const std::string& where) {
  const auto it = json.find("effects");
  if (it == json.end()) return {};
  const std::string subject = "'effects' of option '" + schema.name + "'";
  const auto choices = schema.type == "boolean" ? std::vector<std::string>{"true", "false"} : schema.choices;
  if (choices.empty())
    throw Error(ErrorCode::invalid_value,
                subject + " are allowed for booleans and for options with 'choices' only", {}, where);
  check_keys(*it, choices, "choice", subject, where);
  std::map<std::string, Effect> effects;
  for (const auto& [choice, effect] : it->items())
    effects[choice] = effect_from_string(
        checked({.type = "string", .choices = effect_names()}, effect, subject + ", '" + choice + "'", where)
            .get<std::string>(),
        where);
  return effects;
}
}  // namespace

std::string_view to_string(Phase phase) { return kPhases.at(static_cast<size_t>(phase)); }
std::string_view to_string(Effect effect) { return kEffects.at(static_cast<size_t>(effect)); }

std::vector<std::string> effect_names() { return {kEffects.begin(), kEffects.end()}; }

Effect effect_from_string(std::string_view name, const std::string& where) {
  const auto it = std::ranges::find(kEffects, name);
  if (it == kEffects.end())
    throw Error(ErrorCode::unknown_name, "unknown effect '" + std::string(name) + "'",
                did_you_mean(name, effect_names()), where);
  return static_cast<Effect>(it - kEffects.begin());
}

OptionSchema OptionSchema::parse(const Json& json, const std::string& where) {
  check_keys(json, kKeys, "key", "an option", where);
  OptionSchema schema;
  schema.name = text_of(json, {.name = "name", .type = "string"}, "an option", where);
  const std::string subject = "option '" + schema.name + "'";
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_value, what, {}, where);
  };
  if (!is_name(schema.name))
    refuse(subject + " must have a name of lower-case letters, digits and '_' that starts with a letter");
  schema.type = text_of(json, {.name = "type", .type = "string", .choices = kTypes}, subject, where);
  schema.doc = text_of(json, {.name = "doc", .type = "string"}, subject, where);
  schema.min = bound(json, "min", schema, where);
  schema.max = bound(json, "max", schema, where);
  if (!schema.min.is_null() && !schema.max.is_null() && schema.min > schema.max)
    refuse(subject + " allows no value: min " + schema.min.dump() + " is above max " + schema.max.dump());
  if (const auto it = json.find("choices"); it != json.end()) {
    if (schema.type != "string" && schema.type != "list")
      refuse("'choices' of " + subject + " are allowed for strings and lists only, not for type " +
             schema.type);
    schema.choices = checked({.type = "list"}, *it, "'choices' of " + subject, where);
    if (schema.choices.empty()) refuse("'choices' of " + subject + " are empty");
  }
  schema.effects = effects_of(json, schema, where);
  if (const auto it = json.find("default"); it != json.end() && !it->is_null())
    schema.fallback = checked(schema, *it, "'default' of " + subject, where);
  return schema;
}

Options::Options(const std::vector<OptionSchema>& schemas, const Json& given, const std::string& where) {
  check_keys(given, texts_of(schemas, &OptionSchema::name), "option", "", where);
  for (const auto& schema : schemas) {
    const std::string subject = "option '" + schema.name + "'";
    if (const auto it = given.find(schema.name); it != given.end())
      values_[schema.name] = checked(schema, *it, subject, where);
    else if (schema.fallback.is_null())
      throw Error(ErrorCode::missing_value, subject + " is required",
                  "give " + allowed(schema) + ": " + schema.doc, where);
    else
      values_[schema.name] = schema.fallback;
  }
}

const Json& Options::at(std::string_view name) const {
  const auto it = values_.find(name);
  if (it == values_.end())
    throw Error(ErrorCode::invalid_plugin, "the plugin reads the option '" + std::string(name) +
                                               "', which its description does not list");
  return *it;
}

int64_t Options::integer(std::string_view name) const { return at(name).get<int64_t>(); }
double Options::number(std::string_view name) const { return at(name).get<double>(); }
bool Options::boolean(std::string_view name) const { return at(name).get<bool>(); }
std::string Options::string(std::string_view name) const { return at(name).get<std::string>(); }
std::vector<std::string> Options::list(std::string_view name) const {
  return at(name).get<std::vector<std::string>>();
}
}  // namespace optrush
