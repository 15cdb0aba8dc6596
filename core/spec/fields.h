#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "optrush/error.h"
#include "optrush/json.h"
#include "optrush/options.h"
#include "spec/value.h"

namespace optrush {
/// The fields of a struct, declared once. The list reads and checks JSON strictly, writes it, and gives the
/// documentation and the JSON schema. Default values are those of the struct.
template <class T>
class Fields {
 public:
  struct Field {
    OptionSchema schema;  ///< a null fallback makes the field required
    std::function<void(T&, const Json&, const std::string& subject, const std::string& where)> read;
    std::function<Json(const T&)> write;
  };

  /// For an enum, `schema.choices` are the names of the enumerators 0, 1, ... in this order.
  template <class M>
  Fields& required(M T::*member, OptionSchema schema) {
    schema.type = type_of<M>();
    const auto read = [=](T& object, const Json& json, const std::string& subject, const std::string& where) {
      object.*member = decode<M>(schema, checked(schema, json, subject, where));
    };
    return custom({schema, read, [=](const T& object) { return encode(schema, object.*member); }});
  }
  template <class M>
  Fields& optional(M T::*member, OptionSchema schema) {
    schema.fallback = encode(schema, T{}.*member);
    return required(member, std::move(schema));
  }
  /// A member that is a struct with its own Fields.
  template <class M>
  Fields& nested(M T::*member, const Fields<M>& fields, OptionSchema schema) {
    schema.type = "object";
    schema.fallback = fields.write(T{}.*member);
    const auto read = [=, &fields](T& object, const Json& json, const std::string& subject,
                                   const std::string& where) {
      object.*member = fields.read(json, subject, where);
    };
    return custom({schema, read, [=, &fields](const T& object) { return fields.write(object.*member); }});
  }
  /// Files of earlier versions use the name `former` for the field `name`.
  Fields& formerly(std::string former, std::string name) {
    former_.emplace_back(std::move(former), std::move(name));
    return *this;
  }
  Fields& custom(Field field) {
    fields_.push_back(std::move(field));
    return *this;
  }

  /// `subject` names the struct in messages, for example "train"; it is empty for a whole spec.
  T read(const Json& given, const std::string& subject, const std::string& where) const {
    const Json json = with_present_names(given);
    check_keys(json, names(), "field", subject, where);
    T object;
    for (const auto& [schema, read, write] : fields_) {
      const std::string name = subject.empty() ? schema.name : subject + "." + schema.name;
      if (const auto it = json.find(schema.name); it != json.end())
        read(object, *it, name, where);
      else if (schema.fallback.is_null())
        throw Error(ErrorCode::missing_value, name + " is missing", "it must be " + allowed(schema), where);
    }
    return object;
  }
  Json write(const T& object) const {
    Json json = Json::object();
    for (const auto& field : fields_) json[field.schema.name] = field.write(object);
    return json;
  }
  std::vector<OptionSchema> schemas() const {
    std::vector<OptionSchema> schemas;
    for (const auto& field : fields_) schemas.push_back(field.schema);
    return schemas;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& field : fields_) names.push_back(field.schema.name);
    return names;
  }

 private:
  Json with_present_names(Json json) const {
    for (const auto& [former, name] : former_)
      if (json.is_object() && json.contains(former) && !json.contains(name)) {
        json[name] = json.at(former);
        json.erase(former);
      }
    return json;
  }
  template <class M>
  static std::string type_of() {
    if constexpr (std::is_same_v<M, bool>)
      return "boolean";
    else if constexpr (std::is_integral_v<M>)
      return "integer";
    else if constexpr (std::is_floating_point_v<M>)
      return "number";
    else if constexpr (std::is_same_v<M, std::string> || std::is_enum_v<M>)
      return "string";
    else if constexpr (std::is_same_v<M, std::vector<int64_t>>)
      return "integer[]";
    else
      return "list";
  }
  template <class M>
  static Json encode(const OptionSchema& schema, const M& value) {
    if constexpr (std::is_enum_v<M>)
      return schema.choices.at(static_cast<size_t>(value));
    else
      return value;
  }
  template <class M>
  static M decode(const OptionSchema& schema, const Json& json) {
    if constexpr (std::is_enum_v<M>)
      return static_cast<M>(std::ranges::find(schema.choices, json.get<std::string>()) -
                            schema.choices.begin());
    else
      return json.get<M>();
  }

  std::vector<Field> fields_;
  std::vector<std::pair<std::string, std::string>> former_;
};
}  // namespace optrush
