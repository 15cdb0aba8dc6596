#pragma once
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "script/objects.h"
#include "spec/spec_json.h"

struct lua_State;

namespace optrush {
struct LuaValue;

/// A Lua table as C++ data: the list part, and the fields with string keys sorted by name.
struct LuaTable {
  std::vector<LuaValue> items;
  std::map<std::string, LuaValue> fields;

  /// Null if there is no such field or it is nil.
  const LuaValue* find(const std::string& name) const;
  bool has(const std::string& name) const { return find(name) != nullptr; }
  const LuaValue& at(const std::string& name) const;
  /// Sets `target` to the value of a field, if the table has it.
  template <class T>
  void read(const std::string& name, T& target) const;
  /// Whether a boolean field is there and true.
  bool is_true(const std::string& name) const;
};

/// A value that no bound function accepts: a function, a coroutine, a foreign userdata.
struct Unsupported {
  std::string type;
};

/// A value from a script. It is a copy, except for objects, which stay in Lua during the call.
struct LuaValue {
  std::variant<Json, LuaTable, Object*, Unsupported> data = Json();

  /// Null if the value is a table, an object, or of an unsupported type.
  const Json* plain() const { return std::get_if<Json>(&data); }
  bool is_nil() const { return plain() != nullptr && plain()->is_null(); }
  bool is_table() const { return std::holds_alternative<LuaTable>(data); }
  bool is_string() const { return plain() != nullptr && plain()->is_string(); }
  const Json& json() const { return std::get<Json>(data); }
  std::string text() const { return json().get<std::string>(); }
  const LuaTable& table() const { return std::get<LuaTable>(data); }
  template <class T>
  bool is() const {
    const auto* object = std::get_if<Object*>(&data);
    return object != nullptr && std::holds_alternative<T>(**object);
  }
  template <class T>
  T& object() const {
    return std::get<T>(*std::get<Object*>(data));
  }
};

template <class T>
void LuaTable::read(const std::string& name, T& target) const {
  if (const LuaValue* value = find(name)) target = value->json().get<T>();
}

/// Reads the value at `index`. It calls nothing that can raise a Lua error, so C++ objects may live around
/// it. An optrush::Error names what can't be read: cycles, holes in lists, mixed keys, invalid UTF-8.
LuaValue read_value(lua_State*, int index);

/// The value as JSON; {} becomes an empty object. An Error names `subject`: it has no JSON form.
Json to_json(const LuaValue&, const std::string& subject);
/// The value for messages: "a Rung", "a table", "\"x\"", "nil".
std::string shown(const LuaValue&);
}  // namespace optrush
