#include <algorithm>
#include <cctype>

#include "base/contains.h"
#include "base/suggest.h"
#include "base/text.h"
#include "optrush/error.h"
#include "script/api.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
constexpr std::string_view kMap = "table<string, ";

Type parse(const std::string& text) {
  if (text.ends_with("[]")) return {Type::Form::list, text.substr(0, text.size() - 2)};
  if (text.starts_with(kMap))
    return {Type::Form::map, text.substr(kMap.size(), text.size() - kMap.size() - 1)};
  return {Type::Form::name, text};
}

std::string with_article(const std::string& noun) { return (noun.starts_with('E') ? "an " : "a ") + noun; }

bool is_scalar(const std::string& type) {
  return type == "integer" || type == "number" || type == "string" || type == "boolean";
}

bool fits(const LuaValue& value, const Type& type) {
  const bool list = value.is_table() && value.table().fields.empty();
  const bool fields = value.is_table() && value.table().items.empty();
  if (type.form == Type::Form::list) return list;
  if (type.form == Type::Form::map) return fields;
  if (type.name == "table") return value.is_table();
  if (type.name == "list") return list;
  if (is_scalar(type.name)) {
    const Json* json = value.plain();
    if (json == nullptr) return false;
    if (type.name == "string") return json->is_string();
    return type.name == "boolean" ? json->is_boolean() : json->is_number();
  }
  const Class* known = api().find_class(type.name);
  if (known == nullptr) throw std::logic_error("the binding table has no type " + type.name);
  if (known->kind == Class::Kind::table) return fields;
  if (known->kind == Class::Kind::alias)
    return std::ranges::any_of(alternatives(known->alias), [&](const Type& t) { return fits(value, t); });
  const auto* object = std::get_if<Object*>(&value.data);
  return object != nullptr && class_of(**object) == type.name;
}

/// Whether the type is a table type with every field of `value`. It selects among alternative tables.
bool knows(const Type& type, const LuaValue& value) {
  const Class* known = type.form == Type::Form::name ? api().find_class(type.name) : nullptr;
  return known != nullptr && known->kind == Class::Kind::table && fits(value, type) &&
         std::ranges::all_of(value.table().fields, [&](const auto& field) {
           return std::ranges::count(known->fields, field.first, &Parameter::name) != 0;
         });
}

std::string described(const Parameter& parameter, const Type& type) {
  if (type.form == Type::Form::list && type.name.ends_with("[]"))
    return "a list of lists { { ... }, ... } of " + type.name.substr(0, type.name.size() - 2);
  if (type.form == Type::Form::map && type.name.ends_with("[]"))
    return "a table of named lists of " + type.name.substr(0, type.name.size() - 2);
  if (type.form == Type::Form::map) return "a table { NAME = ... } of " + type.name + "s";
  const Class* known = api().find_class(type.name);
  const bool alias = known != nullptr && known->kind == Class::Kind::alias;
  if (type.form == Type::Form::list)
    return alias ? "a list { ... }, each item " + known->doc : "a list { ... } of " + type.name;
  if (type.name == "table") return "a table";
  if (is_scalar(type.name) || type.name == "list") {
    Parameter scalar = parameter;
    scalar.type = type.name;
    return allowed(scalar);
  }
  if (known->kind == Class::Kind::table) return "a table of named fields";
  if (alias) return known->doc;
  std::vector<std::string> makers;
  for (const auto& function : api().functions)
    if (function.returns == type.name) makers.push_back(function.title());
  const std::string last = makers.back();
  makers.pop_back();
  return with_article(type.name) + " from " + join(makers) + (makers.empty() ? "" : " or ") + last;
}

std::string expected(const Parameter& parameter) {
  const auto text = [&](const Type& type) { return described(parameter, type); };
  return join(texts_of(alternatives(parameter.type), text), " or ");
}

/// A hint if a field belongs into a nested table: "train = { micro_batch = ... }".
std::string misplaced(const std::string& name, const std::vector<Parameter>& fields) {
  for (const auto& field : fields)
    for (const auto& type : alternatives(field.type))
      if (const Class* known = api().find_class(type.name);
          known != nullptr && known->kind == Class::Kind::table)
        if (std::ranges::count(known->fields, name, &Parameter::name) != 0)
          return field.name + " = { " + name + " = ... }";
  return {};
}

Error unknown_field(const std::string& name, const std::vector<Parameter>& fields,
                    const std::string& subject) {
  const auto names = texts_of(fields, &Parameter::name);
  const std::string field = "field '" + name + "'" + (subject.empty() ? "" : " of " + subject);
  if (const std::string present(present_name(name)); contains(names, present))
    return Error(ErrorCode::unknown_name, "the " + field + " is now called '" + present + "'",
                 "write " + present + " = ...");
  const std::string elsewhere = misplaced(name, fields);
  return Error(ErrorCode::unknown_name, "unknown " + field,
               elsewhere.empty() ? did_you_mean(name, names) : "did you mean " + elsewhere + "?");
}

/// `inside` names the value in messages about its fields; empty for the table of a call with braces.
void check_value(LuaValue& value, const Parameter& parameter, const std::string& subject,
                 const std::string& inside);

void check_fields(LuaTable& table, const std::vector<Parameter>& fields, const std::string& subject) {
  for (const auto& [name, value] : table.fields)
    if (!std::ranges::count(fields, name, &Parameter::name)) throw unknown_field(name, fields, subject);
  for (const auto& field : fields) {
    const std::string name = subject.empty() ? field.name : subject + "." + field.name;
    if (table.has(field.name))
      check_value(table.fields.at(field.name), field, name, name);
    else if (required(field))
      throw Error(ErrorCode::missing_value, name + " is missing",
                  "it must be " + expected(field) + ": " + field.doc);
  }
}

void check_as(LuaValue& value, const Parameter& parameter, const Type& type, const std::string& subject,
              const std::string& inside) {
  Parameter part = parameter;
  part.type = type.name;
  if (type.form == Type::Form::list) {
    auto& items = std::get<LuaTable>(value.data).items;
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string name = subject + "[" + std::to_string(i + 1) + "]";
      check_value(items[i], part, name, name);
    }
  } else if (type.form == Type::Form::map) {
    for (auto& [key, item] : std::get<LuaTable>(value.data).fields)
      check_value(item, part, subject + "." + key, subject + "." + key);
  } else if (is_scalar(type.name) || type.name == "list") {
    value.data = checked(part, to_json(value, subject), subject, "");
  } else if (const Class* known = api().find_class(type.name);
             known != nullptr && known->kind == Class::Kind::table) {
    check_fields(std::get<LuaTable>(value.data), known->fields, inside);
  }
}

void check_value(LuaValue& value, const Parameter& parameter, const std::string& subject,
                 const std::string& inside) {
  const auto types = alternatives(parameter.type);
  auto fitting = std::ranges::find_if(types, [&](const Type& type) { return fits(value, type); });
  if (const auto knowing = std::ranges::find_if(types, [&](const Type& type) { return knows(type, value); });
      knowing != types.end())
    fitting = knowing;
  if (fitting != types.end()) return check_as(value, parameter, *fitting, subject, inside);
  const bool is_an_item = std::ranges::any_of(types, [&](const Type& type) {
    return type.form == Type::Form::list &&
           std::ranges::any_of(alternatives(type.name), [&](const Type& item) { return fits(value, item); });
  });
  throw Error(ErrorCode::invalid_value,
              subject + " must be " + expected(parameter) + ", but is " + shown(value),
              is_an_item ? "put it in braces: a list of one item is { item }" : "");
}
}  // namespace

std::vector<Type> alternatives(const std::string& type) {
  std::vector<Type> types;
  const size_t end = type.size() - (type.ends_with('?') ? 1 : 0);
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= end; ++i) {
    if (i == end || (type[i] == '|' && depth == 0)) {
      types.push_back(parse(type.substr(begin, i - begin)));
      begin = i + 1;
    } else if (type[i] == '<') {
      ++depth;
    } else if (type[i] == '>') {
      --depth;
    }
  }
  return types;
}

bool required(const Parameter& parameter) {
  return parameter.fallback.is_null() && !parameter.type.ends_with('?');
}

std::string Function::title() const {
  if (owner.empty()) return "rush." + name;
  std::string object = owner == "Experiment" ? "exp" : owner;
  object[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(object[0])));
  return object + (property ? "." : ":") + name;
}

const Class* Api::find_class(const std::string& name) const {
  const auto it = std::ranges::find(classes, name, &Class::name);
  return it == classes.end() ? nullptr : &*it;
}

std::vector<std::string> Api::names(const std::string& owner) const {
  std::vector<std::string> names;
  for (const auto& function : functions)
    if (function.owner == owner) names.push_back(function.name);
  return names;
}

const Api& api() {
  static const Api api{api_classes(), api_functions()};
  return api;
}

LuaTable checked_arguments(const Function& function, std::vector<LuaValue> given) {
  while (!given.empty() && given.back().is_nil()) given.pop_back();
  const auto& parameters = function.parameters;
  if (given.size() > parameters.size())
    throw Error(ErrorCode::invalid_value,
                function.title() + " takes " +
                    (parameters.empty() ? "no" : std::to_string(parameters.size())) +
                    (parameters.size() == 1 ? " argument" : " arguments") + ", but was given " +
                    std::to_string(given.size()));
  LuaTable arguments;
  try {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& parameter = parameters[i];
      if (i < given.size() && !given[i].is_nil()) {
        check_value(given[i], parameter, parameter.name, "");
        arguments.fields[parameter.name] = std::move(given[i]);
      } else if (required(parameter)) {
        throw Error(ErrorCode::missing_value,
                    parameter.name + (parameter.name.ends_with('s') ? " are" : " is") + " missing",
                    "it must be " + expected(parameter) + ": " + parameter.doc);
      }
    }
  } catch (const Error& e) {
    throw Error(e.code(), function.title() + ": " + e.message(), e.cure(), e.where());
  }
  return arguments;
}
}  // namespace optrush
