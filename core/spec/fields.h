#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "optrush/json.h"
#include "optrush/options.h"

namespace optrush {
namespace fields {
template <class M>
std::string type_of() {
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

/// What a member's type determines. One exists for each type, so that a field costs the compiler little.
struct MemberType {
  void (*read)(void* member, const OptionSchema&, const Json& checked);
  Json (*write)(const void* member, const OptionSchema&);
};
template <class M>
constexpr MemberType kMemberType = {
    [](void* member, const OptionSchema& schema, const Json& json) {
      M& value = *static_cast<M*>(member);
      if constexpr (std::is_enum_v<M>)
        value = static_cast<M>(std::ranges::find(schema.choices, json.get<std::string>()) -
                               schema.choices.begin());
      else
        value = json.get<M>();
    },
    [](const void* member, const OptionSchema& schema) -> Json {
      const M& value = *static_cast<const M*>(member);
      if constexpr (std::is_enum_v<M>)
        return schema.choices.at(static_cast<size_t>(value));
      else
        return value;
    }};

/// The part of Fields that does not depend on the type of its struct.
class FieldList {
 public:
  struct Field {
    OptionSchema schema;  ///< a null fallback makes the field required
    std::function<void(void* object, const Json&, const std::string& subject, const std::string& where)> read;
    std::function<Json(const void* object)> write;
  };
  using Member = std::function<const void*(const void* object)>;

  void add(Field field) { fields_.push_back(std::move(field)); }
  void add(OptionSchema, const MemberType&, Member);
  void add_former(std::string former, std::string name);
  void read(void* object, const Json& given, const std::string& subject, const std::string& where) const;
  Json write(const void* object) const;
  std::vector<OptionSchema> schemas() const;

 private:
  Json with_present_names(Json) const;
  std::vector<Field> fields_;
  std::vector<std::pair<std::string, std::string>> former_;
};
}  // namespace fields

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
    schema.type = fields::type_of<M>();
    list_.add(std::move(schema), fields::kMemberType<M>,
              [member](const void* object) { return &(static_cast<const T*>(object)->*member); });
    return *this;
  }
  template <class M>
  Fields& optional(M T::*member, OptionSchema schema) {
    schema.fallback = fields::kMemberType<M>.write(&(usual().*member), schema);
    return required(member, std::move(schema));
  }
  /// A member that is a struct with its own Fields.
  template <class M>
  Fields& nested(M T::*member, const Fields<M>& fields, OptionSchema schema) {
    schema.type = "object";
    schema.fallback = fields.write(usual().*member);
    const auto read = [=, &fields](T& object, const Json& json, const std::string& subject,
                                   const std::string& where) {
      object.*member = fields.read(json, subject, where);
    };
    return custom({schema, read, [=, &fields](const T& object) { return fields.write(object.*member); }});
  }
  /// Files of earlier versions use the name `former` for the field `name`.
  Fields& formerly(std::string former, std::string name) {
    list_.add_former(std::move(former), std::move(name));
    return *this;
  }
  Fields& custom(Field field) {
    list_.add({std::move(field.schema),
               [read = std::move(field.read)](void* object, const Json& json, const std::string& subject,
                                              const std::string& where) {
                 read(*static_cast<T*>(object), json, subject, where);
               },
               [write = std::move(field.write)](const void* object) {
                 return write(*static_cast<const T*>(object));
               }});
    return *this;
  }

  /// `subject` names the struct in messages, for example "train"; it is empty for a whole spec.
  T read(const Json& given, const std::string& subject, const std::string& where) const {
    T object;
    list_.read(&object, given, subject, where);
    return object;
  }
  Json write(const T& object) const { return list_.write(&object); }
  std::vector<OptionSchema> schemas() const { return list_.schemas(); }

 private:
  static const T& usual() {
    static const T object{};
    return object;
  }
  fields::FieldList list_;
};
}  // namespace optrush
