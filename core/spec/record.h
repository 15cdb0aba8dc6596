#pragma once
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "optrush/error.h"
#include "optrush/json.h"
#include "optrush/options.h"

namespace optrush {
template <class T>
class Record;
/// The record of a struct, which its record_of() makes once.
template <class T>
const Record<T>& fields_of();

/// How a field of a Record is read, written and described.
struct FieldUse {
  std::string_view doc = {};  ///< a literal
  bool required = false;      ///< reading fails without it
  bool promised = false;      ///< the schema requires it, but files of earlier builds may lack it
  bool nullable = false;      ///< null is a value; otherwise null means that the field is missing
  bool left_out = false;      ///< not written if it is empty or has its default
  bool integer = false;       ///< a double that holds a count: it is written without a decimal point
  std::string type = {};      ///< type of an option, if the member's type does not determine it
  Json min = {}, max = {};    ///< range of a number
  std::vector<std::string> choices = {};  ///< of a string, or the names of the enumerators 0, 1, ...
  std::string former = {};                ///< name of the field in files of earlier versions
  Json schema = {};                       ///< additions to the JSON schema besides type and description
};

namespace record {
template <class M>
concept Optional = std::same_as<M, std::optional<typename M::value_type>>;
template <class M>
concept List = std::same_as<M, std::vector<typename M::value_type>>;
/// A list of (name, value) or a map by name: an object in JSON.
template <class M>
concept Named = requires(M m) {
  { m.begin()->first } -> std::convertible_to<std::string>;
};
template <class M>
concept Scalar = std::is_arithmetic_v<M> || std::same_as<M, std::string>;
/// A list that is an option too.
template <class M>
concept Plain =
    Scalar<M> || std::same_as<M, std::vector<std::string>> || std::same_as<M, std::vector<int64_t>>;

/// What a value must be, and its name in messages.
struct Expected {
  OptionSchema schema;
  std::string name;    ///< "train.lr", "field 'lr'"
  bool given = false;  ///< by a user, and not stored by this program
};
/// The value, converted to its type. An Error states what it must be.
Json checked(const Json&, const Expected&);
/// Whether the list has items; an Error if it is none. Lua has one type for an empty list and an empty table.
bool has_items(const Json&, const Expected&);
/// The position of a text in the choices.
size_t position(const Json&, const Expected&);

/// Whether a value is empty: null, "", [] or an object whose members are all empty.
bool is_nothing(const Json&);
/// A number for JSON: null if it is not finite, without a decimal point if it is an `integer`.
Json written_number(double value, bool integer);

// Parts of JSON schemas.
Json of_type(const char* type);
Json of_option(const OptionSchema&, bool integer);
Json list_of(Json items);
Json object_of(Json values, bool nullable);

/// The type of an option with such a value, and its choices.
template <class M>
OptionSchema schema_of() {
  OptionSchema schema;
  if constexpr (std::same_as<M, bool>)
    schema.type = "boolean";
  else if constexpr (std::is_integral_v<M>)
    schema.type = "integer";
  else if constexpr (std::is_floating_point_v<M>)
    schema.type = "number";
  else if constexpr (std::same_as<M, std::string>)
    schema.type = "string";
  else if constexpr (std::is_enum_v<M>) {
    schema.type = "string";
    if constexpr (requires { names_of(M{}); }) schema.choices = {names_of(M{}).begin(), names_of(M{}).end()};
  } else if constexpr (Optional<M>) {
    schema = schema_of<typename M::value_type>();
  } else if constexpr (List<M> && !Named<M>) {
    if constexpr (Scalar<typename M::value_type> || std::is_enum_v<typename M::value_type>)
      schema = schema_of<typename M::value_type>();
    schema.type = std::same_as<M, std::vector<int64_t>> ? "integer[]" : "list";
  } else if constexpr (!std::same_as<M, Json>) {
    schema.type = "object";
  }
  return schema;
}

template <class M>
Json written(const M& value, const OptionSchema& schema = schema_of<M>(), bool integer = false) {
  if constexpr (std::same_as<M, double>) {
    return written_number(value, integer);
  } else if constexpr (Plain<M> || std::same_as<M, Json>) {
    return value;
  } else if constexpr (std::is_enum_v<M>) {
    return schema.choices.at(static_cast<size_t>(value));
  } else if constexpr (Optional<M>) {
    return value ? written(*value, schema, integer) : Json();
  } else if constexpr (Named<M>) {
    Json object = Json::object();
    for (const auto& [name, one] : value) object[name] = written(one, schema, integer);
    return object;
  } else if constexpr (List<M>) {
    Json list = Json::array();
    for (const auto& one : value) list.push_back(written(one, schema, integer));
    return list;
  } else {
    return fields_of<M>().write(value);
  }
}

template <class M>
M taken(const Json& json, const Expected& expected) {
  if constexpr (Plain<M>) {
    return checked(json, expected).get<M>();
  } else if constexpr (std::same_as<M, Json>) {
    return expected.schema.type.empty() ? json : checked(json, expected);
  } else if constexpr (std::is_enum_v<M>) {
    return static_cast<M>(position(json, expected));
  } else if constexpr (Optional<M>) {
    const bool none = json.is_null() || (expected.given && json.is_object() && json.empty());
    return none ? M() : M(taken<typename M::value_type>(json, expected));
  } else if constexpr (Named<M>) {
    using Value = std::remove_cvref_t<decltype(M().begin()->second)>;
    M values;
    const Json object = checked(json, expected);
    for (const auto& [key, value] : object.items()) {
      const std::string name = expected.name + (expected.given ? "." + key : ", '" + key + "'");
      if (Optional<Value> || expected.given || !value.is_null())
        values.insert(values.end(),
                      {key, taken<Value>(value, Expected{schema_of<Value>(), name, expected.given})});
    }
    return values;
  } else if constexpr (List<M>) {
    M values;
    if (!has_items(json, expected)) return values;
    const Expected item{schema_of<typename M::value_type>(), expected.name, expected.given};
    for (const Json& value : json) values.push_back(taken<typename M::value_type>(value, item));
    return values;
  } else {
    return fields_of<M>().read(json);
  }
}
/// A value of the field `name` of a stored file.
template <class M>
M taken(const Json& json, const std::string& name) {
  return taken<M>(json, Expected{schema_of<M>(), "field '" + name + "'"});
}

template <class M>
Json described(const OptionSchema& schema = schema_of<M>(), bool integer = false) {
  if constexpr (Scalar<M> || std::is_enum_v<M>) {
    return of_option(schema, integer);
  } else if constexpr (std::same_as<M, Json>) {
    return schema.type.empty() ? Json::object() : of_option(schema, integer);
  } else if constexpr (Optional<M>) {
    return described<typename M::value_type>(schema, integer);
  } else if constexpr (Named<M>) {
    using Value = std::remove_cvref_t<decltype(M().begin()->second)>;
    return object_of(described<Value>(schema_of<Value>(), integer), Optional<Value>);
  } else if constexpr (List<M>) {
    return list_of(described<typename M::value_type>(schema_of<typename M::value_type>(), integer));
  } else {
    return fields_of<M>().schema();
  }
}

/// What a member's type determines. One exists for each type, so that a field costs the compiler little.
struct MemberType {
  OptionSchema (*option)();
  void (*read)(void* member, const Json&, const Expected&);
  Json (*write)(const void* member, const OptionSchema&, bool integer);
  Json (*describe)(const OptionSchema&, bool integer);
};
template <class M>
constexpr MemberType kMemberType = {&schema_of<M>,
                                    [](void* member, const Json& json, const Expected& expected) {
                                      *static_cast<M*>(member) = taken<M>(json, expected);
                                    },
                                    [](const void* member, const OptionSchema& schema, bool integer) {
                                      return written(*static_cast<const M*>(member), schema, integer);
                                    },
                                    &described<M>};

/// The part of a Record that does not depend on the type of its struct.
class FieldList {
 public:
  struct Field {
    Expected expected;
    FieldUse use;  ///< with the complete JSON schema
    std::function<void(void* object, const Json&)> read;
    std::function<Json(const void* object)> write;
  };
  using Member = std::function<const void*(const void* object)>;

  std::string subject, doc;
  bool given = false, open = false;

  /// `usual`: an object with default values.
  void add(const char* name, const MemberType&, Member, FieldUse, const void* usual);
  void add(const char* name, FieldUse, decltype(Field::read), decltype(Field::write), const void* usual);
  void read(void* object, const Json&) const;
  /// Writes the fields. If `usual` is given, writes only the fields whose values differ from its fields.
  Json write(const void* object, const void* usual) const;
  Json schema() const;
  std::vector<OptionSchema> options() const;

 private:
  void push(Field, const void* usual);
  Expected expected(const char* name, const FieldUse&, OptionSchema) const;
  Json written(const Field&, const void* object) const;
  std::vector<Field> fields_;
};
}  // namespace record

/// The fields of a struct, declared once. The list reads, checks, writes and describes the struct. Besides
/// scalars, a member may be a list, an object by name, another struct, which then has a function
/// `Record<T> record_of(const T*)` beside it, or an enum with choices or with `names_of`.
template <class T>
class Record {
 public:
  /// `subject` names the struct in messages, for example "a step".
  explicit Record(std::string subject, std::string doc = {}) {
    fields_.subject = std::move(subject);
    fields_.doc = std::move(doc);
  }
  /// Of values that a user gives: null is no value, and messages name a field as "train.lr".
  static Record given(std::string subject) {
    Record record(std::move(subject));
    record.fields_.given = true;
    return record;
  }

  template <class M>
  Record& field(const char* name, M T::*member, FieldUse use = {}) {
    fields_.add(
        name, record::kMemberType<M>,
        [member](const void* object) { return &(static_cast<const T*>(object)->*member); }, std::move(use),
        &usual());
    return *this;
  }
  template <class M>
  Record& field(const char* name, M T::*member, std::string_view doc, FieldUse use = {}) {
    use.doc = doc;
    return field(name, member, std::move(use));
  }
  /// Members of T that JSON groups in a separate object.
  Record& part(const char* name, Record fields, FieldUse use) {
    use.schema = fields.schema();
    return custom(
        name, std::move(use), [=](T& object, const Json& json) { fields.read_into(object, json); },
        [=](const T& object) { return fields.write(object); });
  }
  Record& custom(const char* name, FieldUse use, std::function<void(T&, const Json&)> read,
                 std::function<Json(const T&)> write) {
    fields_.add(
        name, std::move(use),
        [read = std::move(read)](void* object, const Json& json) { read(*static_cast<T*>(object), json); },
        [write = std::move(write)](const void* object) { return write(*static_cast<const T*>(object)); },
        &usual());
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
  /// The same; Errors have the place `where`.
  T read(const Json& json, const std::string& where) const try { return read(json); } catch (const Error& e) {
    throw e.at(where);
  }
  void read_into(T& object, const Json& json) const {
    fields_.read(&object, json);
    if (check_) check_(object);
  }
  Json write(const T& object) const {
    return fields_.write(&object, brief_ && brief_(object) ? &usual() : nullptr);
  }
  Json schema() const { return fields_.schema(); }
  /// The fields as options, for docs and editor stubs. Their types are those of options, and "object".
  std::vector<OptionSchema> options() const { return fields_.options(); }

 private:
  static const T& usual() {
    static const T object{};
    return object;
  }
  record::FieldList fields_;
  std::function<void(T&)> check_;
  std::function<bool(const T&)> brief_;
};

template <class T>
const Record<T>& fields_of() {
  static const Record<T> record = record_of(static_cast<const T*>(nullptr));
  return record;
}
/// Its fields as options.
template <class T>
std::vector<OptionSchema> options_of() {
  return fields_of<T>().options();
}
template <class T>
requires requires(const T* object) { record_of(object); }
Json to_json(const T& object) { return fields_of<T>().write(object); }
}  // namespace optrush
