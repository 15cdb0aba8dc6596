#include "spec/value.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/contains.h"
#include "base/suggest.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace {
/// The value converted to the type of the schema, or a discarded value if it has another type.
Json converted(const std::string& type, const Json& value) {
  const Json wrong(Json::value_t::discarded);
  if (type == "integer") {
    if (value.is_number_unsigned() && value.get<uint64_t>() > std::numeric_limits<int64_t>::max())
      return wrong;
    if (value.is_number_integer()) return value.get<int64_t>();
    if (!value.is_number_float()) return wrong;
    const auto number = value.get<double>();
    const bool whole = std::trunc(number) == number && std::abs(number) < 0x1p63;
    return whole ? Json(static_cast<int64_t>(number)) : wrong;
  }
  if (type == "number")
    return value.is_number() && std::isfinite(value.get<double>()) ? Json(value.get<double>()) : wrong;
  if (type == "string" || type == "folder") return value.is_string() ? value : wrong;
  if (type == "boolean") return value.is_boolean() ? value : wrong;
  if (type == "list") {
    if (value.is_object() && value.empty()) return Json::array();
    const bool strings =
        value.is_array() && std::ranges::all_of(value, [](const Json& v) { return v.is_string(); });
    return strings ? value : wrong;
  }
  const bool list = type.ends_with("[]"), table = type == "integers" || type == "numbers";
  if (!list && !table) return value.is_object() ? value : wrong;
  Json numbers = list ? Json::array() : Json::object();
  if (value.is_structured() && value.empty()) return numbers;  // Lua has one type for both
  if (!(list ? value.is_array() : value.is_object())) return wrong;
  for (const auto& [name, item] : value.items()) {
    Json number = converted(type.starts_with("number") ? "number" : "integer", item);
    if (number.is_discarded()) return wrong;
    (list ? numbers.emplace_back() : numbers[name]) = std::move(number);
  }
  return numbers;
}

/// The first string in `value` (a string or a list) that is not one of the choices.
std::optional<std::string> not_a_choice(const std::vector<std::string>& choices, const Json& value) {
  for (const Json& item : value.is_array() ? value : Json::array({value}))
    if (const auto word = item.get<std::string>(); !contains(choices, word)) return word;
  return {};
}
}  // namespace

std::string shown(const Json& value) {
  constexpr size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

Json text_value(const std::string& text, const std::string& type) {
  constexpr int64_t kMostBrackets = 1000;
  if (type == "string") return text;
  // Deeply nested text is refused, because the parser copies level by level.
  if (std::ranges::count_if(text, [](char c) { return c == '[' || c == '{'; }) > kMostBrackets) return text;
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}

double bytes_from(const Json& given, const std::string& what) {
  if (given.is_number() && given.get<double>() > 0) return given.get<double>();
  const std::string text = given.is_string() ? given.get<std::string>() : given.dump();
  size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  const std::string unit = text.substr(std::min(text.find_first_not_of(' ', end), text.size()));
  constexpr std::array<std::pair<const char*, double>, 5> kUnits = {
      {{"B", 1}, {"MB", 1e6}, {"MiB", 1 << 20}, {"GB", 1e9}, {"GiB", 1 << 30}}};
  for (const auto& [name, bytes] : kUnits)
    if (end > 0 && unit == name && number > 0 && std::isfinite(number * bytes)) return number * bytes;
  throw Error(ErrorCode::invalid_value, what + " is '" + text + "'",
              R"(give bytes, or "20GB", "512MB", "16GiB")");
}

bool is_name(std::string_view name) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto allowed = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && letter(name[0]) && std::ranges::all_of(name, allowed);
}

std::string allowed(const OptionSchema& schema) {
  const std::string choices = "'" + join(schema.choices, "', '") + "'";
  if (schema.type == "boolean") return "true or false";
  if (schema.type == "object") return "an object with named fields";
  if (schema.type.ends_with("[]")) return "a list of " + schema.type.substr(0, schema.type.size() - 2) + "s";
  if (schema.type == "list")
    return schema.choices.empty() ? "a list of strings" : "a list of strings from " + choices;
  if (schema.type == "folder") return "the path of a folder";
  if (schema.type == "string") return schema.choices.empty() ? "a string" : "one of " + choices;
  const std::string type = schema.type == "integer"    ? "an integer"
                           : schema.type == "integers" ? "a table { NAME = ... } of integers"
                           : schema.type == "numbers"  ? "a table { NAME = ... } of numbers"
                                                       : "a number";
  if (!schema.min.is_null() && schema.min == schema.max) return schema.min.dump();
  if (!schema.min.is_null() && !schema.max.is_null())
    return type + " between " + schema.min.dump() + " and " + schema.max.dump();
  if (!schema.min.is_null()) return type + " of at least " + schema.min.dump();
  if (!schema.max.is_null()) return type + " of at most " + schema.max.dump();
  return type;
}

Json checked(const OptionSchema& schema, const Json& value, const std::string& subject,
             const std::string& where) {
  const auto refuse = [&](const std::string& cure) -> Error {
    return Error(ErrorCode::invalid_value,
                 subject + " must be " + allowed(schema) + ", but is " + shown(value), cure, where);
  };
  Json result = converted(schema.type, value);
  if (result.is_discarded()) throw refuse({});
  if (!schema.min.is_null() || !schema.max.is_null())
    for (const Json& number : result.is_object() ? result : Json::array({result})) {
      if (!number.is_number()) continue;
      if (!schema.min.is_null() && number < schema.min) throw refuse({});
      if (!schema.max.is_null() && number > schema.max) throw refuse({});
    }
  if (schema.choices.empty()) return result;
  if (const auto word = not_a_choice(schema.choices, result)) {
    const auto best = meant(*word, schema.choices);
    throw refuse(best.empty() ? "" : "did you mean '" + best + "'?");
  }
  return result;
}

void check_keys(const Json& json, const std::vector<std::string>& keys, const std::string& noun,
                const std::string& owner, const std::string& where) {
  if (!json.is_object())
    throw Error(ErrorCode::invalid_value,
                (owner.empty() ? noun + "s" : owner) + " must have named fields, but is " + shown(json), {},
                where);
  for (const auto& [key, value] : json.items())
    if (!contains(keys, key))
      throw Error(ErrorCode::unknown_name,
                  "unknown " + noun + " '" + key + "'" + (owner.empty() ? "" : " of " + owner),
                  did_you_mean(key, keys), where);
}
}  // namespace optrush
