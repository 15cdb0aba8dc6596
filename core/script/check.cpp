#include "script/check.h"

#include <algorithm>

#include "base/suggest.h"
#include "base/value.h"
#include "optrush/error.h"
#include "script/types.h"

namespace optrush {
namespace {
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
    const auto* json = std::get_if<Json>(&value.data);
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

std::string described(const Parameter& parameter, const Type& type) {
  if (type.form == Type::Form::list) return "a list { ... } of " + type.name;
  if (type.form == Type::Form::map) return "a table of named " + type.name;
  if (type.name == "table") return "a table";
  if (is_scalar(type.name) || type.name == "list") {
    Parameter scalar = parameter;
    scalar.type = type.name;
    return allowed(scalar);
  }
  const Class* known = api().find_class(type.name);
  if (known->kind == Class::Kind::object) {
    std::vector<std::string> makers;
    for (const auto& function : api().functions)
      if (function.returns == type.name) makers.push_back(function.title());
    return "a " + type.name + " from " + join(makers, " or ");
  }
  return known->kind == Class::Kind::alias ? known->doc : "a table of named fields";
}

std::string expected(const Parameter& parameter) {
  std::vector<std::string> texts;
  for (const auto& type : alternatives(parameter.type)) texts.push_back(described(parameter, type));
  return join(texts, " or ");
}

void check(LuaValue& value, const Parameter& parameter, const std::string& subject);

void check_fields(LuaTable& table, const std::vector<Parameter>& fields, const std::string& subject) {
  const std::string of = subject.empty() ? "" : " of " + subject;
  std::vector<std::string> names;
  for (const auto& field : fields) names.push_back(field.name);
  for (const auto& [name, value] : table.fields)
    if (!std::ranges::count(names, name))
      throw Error("unknown field '" + name + "'" + of, did_you_mean(name, names));
  for (const auto& field : fields) {
    const std::string name = subject.empty() ? field.name : subject + "." + field.name;
    if (table.has(field.name))
      check(table.fields.at(field.name), field, name);
    else if (required(field))
      throw Error(name + " is missing", "it must be " + expected(field) + ": " + field.doc);
  }
}

void check_as(LuaValue& value, const Parameter& parameter, const Type& type, const std::string& subject) {
  const auto part = [&](LuaValue& item, const std::string& name) {
    Parameter of = parameter;
    of.type = type.name;
    check(item, of, name);
  };
  if (type.form == Type::Form::list) {
    auto& items = std::get<LuaTable>(value.data).items;
    for (size_t i = 0; i < items.size(); ++i) part(items[i], subject + "[" + std::to_string(i + 1) + "]");
  } else if (type.form == Type::Form::map) {
    for (auto& [name, item] : std::get<LuaTable>(value.data).fields) part(item, subject + "." + name);
  } else if (is_scalar(type.name) || type.name == "list") {
    Parameter scalar = parameter;
    scalar.type = type.name;
    value.data = checked(scalar, to_json(value), subject, "");
  } else if (const Class* known = api().find_class(type.name);
             known != nullptr && known->kind == Class::Kind::table) {
    check_fields(std::get<LuaTable>(value.data), known->fields, subject);
  }
}

void check(LuaValue& value, const Parameter& parameter, const std::string& subject) {
  for (const auto& type : alternatives(parameter.type))
    if (fits(value, type)) return check_as(value, parameter, type, subject);
  throw Error(subject + " must be " + expected(parameter) + ", but is " + shown(value));
}

LuaTable named(const Function& function, std::vector<LuaValue> given) {
  while (!given.empty() && given.back().is_nil()) given.pop_back();
  const auto& parameters = function.parameters;
  if (given.size() > parameters.size())
    throw Error("takes " +
                (parameters.empty() ? "no arguments" : "at most " + std::to_string(parameters.size())) +
                ", but was given " + std::to_string(given.size()));
  LuaTable arguments;
  for (size_t i = 0; i < given.size(); ++i) arguments.fields[parameters[i].name] = std::move(given[i]);
  return arguments;
}

/// The one parameter of a call with braces, exp:run { rounds = 3 }: its fields need no name in front.
bool is_single_table(const Function& function) {
  if (function.parameters.size() != 1) return false;
  const auto types = alternatives(function.parameters[0].type);
  const Class* known = types.size() == 1 ? api().find_class(types[0].name) : nullptr;
  return types[0].form == Type::Form::name && known != nullptr && known->kind == Class::Kind::table;
}
}  // namespace

LuaTable checked_arguments(const Function& function, std::vector<LuaValue> given) {
  try {
    LuaTable arguments = named(function, std::move(given));
    if (is_single_table(function) && !arguments.fields.empty()) {
      const Parameter& parameter = function.parameters[0];
      LuaValue& value = arguments.fields.begin()->second;
      const auto type = alternatives(parameter.type)[0];
      if (!fits(value, type))
        throw Error("the argument must be " + expected(parameter) + ", but is " + shown(value),
                    "call it with braces: " + function.title() + " { ... }");
      check_fields(std::get<LuaTable>(value.data), api().find_class(type.name)->fields, "");
    } else {
      check_fields(arguments, function.parameters, "");
    }
    return arguments;
  } catch (const Error& e) {
    throw Error(function.title() + ": " + e.message(), e.cure(), e.where());
  }
}
}  // namespace optrush
