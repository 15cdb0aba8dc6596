#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "optrush/json.h"
#include "spec/read_fields.h"
#include "spec/value.h"

namespace optrush {
/// How a field of a Record is read, written and described.
struct FieldUse {
  std::string_view doc = {};  ///< a literal
  bool required = false;      ///< reading fails without it
  bool promised = false;      ///< the schema requires it, but files of earlier builds may lack it
  bool nullable = false;      ///< null is a value; otherwise null means that the field is missing
  bool left_out = false;      ///< not written if it is empty
  bool integer = false;       ///< a double that holds a count: it is written without a decimal point
  Json schema = {};           ///< additions to the JSON schema besides type and description
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
bool is_nothing(const Json&);
/// A number for JSON: null if it is not finite, without a decimal point if it is an `integer`.
Json written_number(double value, bool integer);
/// An Error: field `name` must be `what`.
[[noreturn]] void refuse(const std::string& name, const char* what);
/// The position of a text in `names`; otherwise an Error with the nearest name.
size_t position(std::span<const std::string_view> names, const Json& text, const std::string& name);

// Parts of JSON schemas.
Json of_type(const char* type);
Json of_names(std::span<const std::string_view>);
Json list_of(Json items);
Json object_of(Json values, bool nullable);

template <class M>
Json written(const M& value, bool integer) {
  if constexpr (std::same_as<M, double>) {
    return written_number(value, integer);
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
    if (!is_of_type<M>(json)) refuse(name, name_of_type<M>());
    return json.get<M>();
  } else if constexpr (std::same_as<M, Json>) {
    return json;
  } else if constexpr (std::is_enum_v<M>) {
    return static_cast<M>(position(names_of(M{}), json, name));
  } else if constexpr (IsOptional<M>::value) {
    return json.is_null() ? M() : M(taken<typename M::value_type>(json, name));
  } else if constexpr (IsNamed<M>::value) {
    if (!json.is_object()) refuse(name, "a table");
    using Value = typename M::value_type::second_type;
    M values;
    for (const auto& [key, value] : json.items())
      if (IsOptional<Value>::value || !value.is_null()) values.emplace_back(key, taken<Value>(value, key));
    return values;
  } else if constexpr (IsVector<M>::value) {
    if (!json.is_array()) refuse(name, "a list");
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
    return of_type("boolean");
  else if constexpr (std::same_as<M, int64_t>)
    return of_type("integer");
  else if constexpr (std::same_as<M, double>)
    return of_type(integer ? "integer" : "number");
  else if constexpr (std::same_as<M, std::string>)
    return of_type("string");
  else if constexpr (std::same_as<M, Json>)
    return Json::object();
  else if constexpr (std::is_enum_v<M>)
    return of_names(names_of(M{}));
  else if constexpr (IsOptional<M>::value)
    return described<typename M::value_type>(integer);
  else if constexpr (IsNamed<M>::value) {
    using Value = typename M::value_type::second_type;
    return object_of(described<Value>(integer), IsOptional<Value>::value);
  } else if constexpr (IsVector<M>::value)
    return list_of(described<typename M::value_type>(integer));
  else
    return record_of(static_cast<const M*>(nullptr)).schema();
}

/// What a member's type determines. One exists for each type, so that a field costs the compiler little.
struct MemberType {
  void (*read)(void* member, const Json&, const std::string& name);
  Json (*write)(const void* member, bool integer);
  Json (*describe)(bool integer);
};
template <class M>
constexpr MemberType kMemberType = {
    [](void* member, const Json& json, const std::string& name) {
      *static_cast<M*>(member) = taken<M>(json, name);
    },
    [](const void* member, bool integer) { return written(*static_cast<const M*>(member), integer); },
    &described<M>};

/// The part of a Record that does not depend on the type of its struct.
class FieldList {
 public:
  struct Field {
    std::string name;
    FieldUse use;  ///< with the complete schema
    std::function<void(void* object, const Json&)> read;
    std::function<Json(const void* object)> write;
  };
  using Member = std::function<const void*(const void* object)>;

  FieldList(std::string subject, std::string doc);
  void add(Field);
  void add(const char* name, const MemberType&, Member, FieldUse);
  void read(void* object, const Json&) const;
  /// Writes the fields. If `usual` is given, writes only the fields whose values differ from its fields.
  Json write(const void* object, const void* usual) const;
  Json schema() const;
  bool open = false;

 private:
  std::string subject_, doc_;
  std::vector<Field> fields_;
};
}  // namespace record

/// The fields of a stored struct, declared once. The list reads, checks, writes and describes the struct.
/// Besides scalars, a member may be another struct, which then has a function `const Record<T>&
/// record_of(const T*)` beside it, or an enum with `names_of` and `to_string`.
template <class T>
class Record {
 public:
  struct Field {
    const char* name;
    FieldUse use;  ///< with the complete schema
    std::function<void(T&, const Json&)> read;
    std::function<Json(const T&)> write;
  };

  /// `subject` names the struct in messages, for example "a step".
  explicit Record(std::string subject, std::string doc = {}) : fields_(std::move(subject), std::move(doc)) {}

  template <class M>
  Record& field(const char* name, M T::*member, FieldUse use) {
    fields_.add(
        name, record::kMemberType<M>,
        [member](const void* object) { return &(static_cast<const T*>(object)->*member); }, std::move(use));
    return *this;
  }
  /// Members of T that JSON groups in a separate object.
  Record& part(const char* name, Record fields, FieldUse use) {
    use.schema = fields.schema();
    return custom({name, std::move(use), [=](T& object, const Json& json) { fields.read_into(object, json); },
                   [=](const T& object) { return fields.write(object); }});
  }
  Record& custom(Field field) {
    fields_.add({field.name, std::move(field.use),
                 [read = std::move(field.read)](void* object, const Json& json) {
                   read(*static_cast<T*>(object), json);
                 },
                 [write = std::move(field.write)](const void* object) {
                   return write(*static_cast<const T*>(object));
                 }});
    return *this;
  }
  /// Ignores undeclared fields, because other programs and later builds may write them.
  Record& open() {
    fields_.open = true;
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
    fields_.read(&object, json);
    if (check_) check_(object);
  }
  Json write(const T& object) const {
    if (!brief_ || !brief_(object)) return fields_.write(&object, nullptr);
    const T usual{};
    return fields_.write(&object, &usual);
  }
  Json schema() const { return fields_.schema(); }

 private:
  record::FieldList fields_;
  std::function<void(T&)> check_;
  std::function<bool(const T&)> brief_;
};
}  // namespace optrush
