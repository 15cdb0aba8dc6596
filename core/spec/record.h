#pragma once
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/suggest.h"
#include "optrush/error.h"
#include "optrush/json.h"
#include "spec/read_fields.h"
#include "spec/value.h"

namespace optrush {
/// How a field of a Record is read, written and described.
struct FieldUse {
  std::string doc;
  bool required = false;         ///< reading fails without it
  bool promised = false;         ///< the schema requires it, but files of earlier builds may lack it
  bool nullable = false;         ///< null is a value; otherwise null means that the field is missing
  bool left_out = false;         ///< not written if it is empty
  bool integer = false;          ///< a double that holds a count: it is written without a decimal point
  Json schema = Json::object();  ///< additions to the JSON schema besides type and description
};

namespace record {
template <class M>
struct IsOptional : std::false_type {};
template <class M>
struct IsOptional<std::optional<M>> : std::true_type {};
template <class M>
struct IsVector : std::false_type {};
template <class M>
struct IsVector<std::vector<M>> : std::true_type {};
/// An ordered list of (name, value): an object in JSON.
template <class M>
struct IsNamed : std::false_type {};
template <class M>
struct IsNamed<std::vector<std::pair<std::string, M>>> : std::true_type {};

template <class M>
concept Scalar = std::same_as<M, bool> || std::same_as<M, int64_t> || std::same_as<M, double> ||
    std::same_as<M, std::string>;

/// Whether a value is empty: null, "", [] or an object whose members are all empty.
inline bool is_nothing(const Json& value) {
  if (!value.is_object()) return value.is_null() || value == "" || (value.is_array() && value.empty());
  for (const auto& part : value)
    if (!is_nothing(part)) return false;
  return true;
}

template <class M>
Json written(const M& value, bool integer) {
  if constexpr (std::same_as<M, double>) {
    if (!std::isfinite(value)) return nullptr;
    constexpr double kMost = 0x1p62;
    if (integer && std::trunc(value) == value && std::abs(value) < kMost) return static_cast<int64_t>(value);
    return value;
  } else if constexpr (Scalar<M> || std::same_as<M, Json>) {
    return value;
  } else if constexpr (std::is_enum_v<M>) {
    return std::string(to_string(value));
  } else if constexpr (IsOptional<M>::value) {
    return value ? written(*value, integer) : Json();
  } else if constexpr (IsNamed<M>::value) {
    Json object = Json::object();
    for (const auto& [name, one] : value) object[name] = written(one, integer);
    return object;
  } else if constexpr (IsVector<M>::value) {
    Json list = Json::array();
    for (const auto& one : value) list.push_back(written(one, integer));
    return list;
  } else {
    return record_of(&value).write(value);
  }
}

template <class M>
M taken(const Json& json, const std::string& name) {
  if constexpr (Scalar<M>) {
    if (!is_of_type<M>(json))
      throw Error(ErrorCode::invalid_file, "field '" + name + "' must be " + name_of_type<M>());
    return json.get<M>();
  } else if constexpr (std::same_as<M, Json>) {
    return json;
  } else if constexpr (std::is_enum_v<M>) {
    const auto text = taken<std::string>(json, name);
    const auto names = names_of(M{});
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == text) return static_cast<M>(i);
    throw Error(ErrorCode::invalid_file, "unknown " + name + " '" + text + "'",
                did_you_mean(text, {names.begin(), names.end()}));
  } else if constexpr (IsOptional<M>::value) {
    return json.is_null() ? M() : M(taken<typename M::value_type>(json, name));
  } else if constexpr (IsNamed<M>::value) {
    if (!json.is_object()) throw Error(ErrorCode::invalid_file, "field '" + name + "' must be a table");
    using Value = typename M::value_type::second_type;
    M values;
    for (const auto& [key, value] : json.items())
      if (IsOptional<Value>::value || !value.is_null()) values.emplace_back(key, taken<Value>(value, key));
    return values;
  } else if constexpr (IsVector<M>::value) {
    if (!json.is_array()) throw Error(ErrorCode::invalid_file, "field '" + name + "' must be a list");
    M values;
    for (const auto& value : json) values.push_back(taken<typename M::value_type>(value, name));
    return values;
  } else {
    return record_of(static_cast<const M*>(nullptr)).read(json);
  }
}

template <class M>
Json described(bool integer) {
  if constexpr (std::same_as<M, bool>)
    return {{"type", "boolean"}};
  else if constexpr (std::same_as<M, int64_t>)
    return {{"type", "integer"}};
  else if constexpr (std::same_as<M, double>)
    return {{"type", integer ? "integer" : "number"}};
  else if constexpr (std::same_as<M, std::string>)
    return {{"type", "string"}};
  else if constexpr (std::same_as<M, Json>)
    return Json::object();
  else if constexpr (std::is_enum_v<M>) {
    Json names = Json::array();
    for (const std::string_view name : names_of(M{})) names.push_back(std::string(name));
    return {{"type", "string"}, {"enum", names}};
  } else if constexpr (IsOptional<M>::value)
    return described<typename M::value_type>(integer);
  else if constexpr (IsNamed<M>::value) {
    using Value = typename M::value_type::second_type;
    Json of_a_value = described<Value>(integer);
    if (IsOptional<Value>::value) of_a_value["type"] = Json::array({of_a_value["type"], "null"});
    return {{"type", "object"}, {"additionalProperties", of_a_value}};
  } else if constexpr (IsVector<M>::value)
    return {{"type", "array"}, {"items", described<typename M::value_type>(integer)}};
  else
    return record_of(static_cast<const M*>(nullptr)).schema();
}
}  // namespace record

/// The fields of a stored struct, declared once. The list reads, checks, writes and describes the struct.
/// Besides scalars, a member may be another struct, which then has a function `const Record<T>&
/// record_of(const T*)` beside it, or an enum with `names_of` and `to_string`.
template <class T>
class Record {
 public:
  struct Field {
    std::string name;
    FieldUse use;  ///< with the complete schema
    std::function<void(T&, const Json&)> read;
    std::function<Json(const T&)> write;
  };

  /// `subject` names the struct in messages, for example "a step".
  explicit Record(std::string subject, std::string doc = {})
      : subject_(std::move(subject)), doc_(std::move(doc)) {}

  template <class M>
  Record& field(std::string name, M T::*member, FieldUse use) {
    const bool integer = use.integer;
    Json schema = record::described<M>(integer);
    schema.update(use.schema);
    use.schema = std::move(schema);
    return custom({name, std::move(use),
                   [=](T& object, const Json& json) { object.*member = record::taken<M>(json, name); },
                   [=](const T& object) { return record::written(object.*member, integer); }});
  }
  /// Members of T that JSON groups in an object of their own.
  Record& part(std::string name, Record fields, FieldUse use) {
    use.schema = fields.schema();
    return custom({std::move(name), std::move(use),
                   [=](T& object, const Json& json) { fields.read_into(object, json); },
                   [=](const T& object) { return fields.write(object); }});
  }
  Record& custom(Field field) {
    if (field.use.nullable && field.use.schema.contains("type"))
      field.use.schema["type"] = Json::array({field.use.schema["type"], "null"});
    if (!field.use.doc.empty()) field.use.schema["description"] = field.use.doc;
    fields_.push_back(std::move(field));
    return *this;
  }
  /// Ignores undeclared fields, because other programs and later builds may write them.
  Record& open() {
    open_ = true;
    return *this;
  }
  /// Checks the fields together after reading, and sets defaults that depend on other fields.
  Record& then(std::function<void(T&)> check) {
    check_ = std::move(check);
    return *this;
  }
  /// For an object that meets `brief`, writes only the fields that differ from their defaults.
  Record& brief_if(std::function<bool(const T&)> brief) {
    brief_ = std::move(brief);
    return *this;
  }

  /// Reads strictly: an unknown field, a missing one or a wrong type is an Error that names the field.
  T read(const Json& json) const {
    T object{};
    read_into(object, json);
    return object;
  }
  void read_into(T& object, const Json& json) const {
    if (!open_ || !json.is_object()) check_keys(json, names(), "field", subject_, {});
    for (const Field& field : fields_) {
      const auto found = json.find(field.name);
      if (found == json.end()) {
        if (field.use.required)
          throw Error(ErrorCode::invalid_file, "field '" + field.name + "' is missing in " + subject_);
      } else if (!found->is_null() || (field.use.required && !field.use.nullable)) {
        field.read(object, *found);
      }
    }
    if (check_) check_(object);
  }
  Json write(const T& object) const {
    const bool brief = brief_ && brief_(object);
    Json json = Json::object();
    for (const Field& field : fields_) {
      Json value = field.write(object);
      const bool nothing = record::is_nothing(value);
      if (!field.use.required && field.use.left_out && nothing) continue;
      if (!field.use.required && brief && (nothing || value == field.write(T{}))) continue;
      json[field.name] = std::move(value);
    }
    return json;
  }
  Json schema() const {
    Json schema = {{"type", "object"}};
    if (!doc_.empty()) schema["description"] = doc_;
    for (const Field& field : fields_)
      if (field.use.required || field.use.promised) schema["required"].push_back(field.name);
    if (!open_) schema["additionalProperties"] = false;
    for (const Field& field : fields_) schema["properties"][field.name] = field.use.schema;
    return schema;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Field& field : fields_) names.push_back(field.name);
    return names;
  }

 private:
  std::string subject_, doc_;
  std::vector<Field> fields_;
  std::function<void(T&)> check_;
  std::function<bool(const T&)> brief_;
  bool open_ = false;
};
}  // namespace optrush
