#include "script/lua_value.h"

#include <cmath>
#include <lua.hpp>

#include "optrush/error.h"
#include "script/userdata.h"
#include "spec/value.h"

namespace optrush {
namespace {
constexpr int kDeepest = 32;
constexpr int64_t kMostValues = 100'000;

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(Json(text).dump());
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

/// Reads an argument. It counts values, so that a cycle or a huge table ends.
class Reader {
 public:
  explicit Reader(lua_State* lua) : lua_(lua) {}

  LuaValue read(int index, int depth) {
    if (++count_ > kMostValues)
      throw Error(ErrorCode::invalid_value, "a table of more than 100000 values", "use fewer values");
    switch (lua_type(lua_, index)) {
      case LUA_TNONE:
      case LUA_TNIL:
        return {};
      case LUA_TBOOLEAN:
        return {Json(lua_toboolean(lua_, index) != 0)};
      case LUA_TNUMBER:
        if (lua_isinteger(lua_, index) != 0)
          return {Json(static_cast<int64_t>(lua_tointegerx(lua_, index, nullptr)))};
        return {Json(number(index))};
      case LUA_TSTRING:
        return {Json(text(index))};
      case LUA_TTABLE:
        return {table(lua_absindex(lua_, index), depth)};
      case LUA_TUSERDATA:
        if (Object* object = object_at(lua_, index)) return {object};
        [[fallthrough]];
      default:
        return {Unsupported{lua_typename(lua_, lua_type(lua_, index))}};
    }
  }

 private:
  double number(int index) const {
    const double value = lua_tonumberx(lua_, index, nullptr);
    if (!std::isfinite(value))
      throw Error(ErrorCode::invalid_value, "a number that is not finite", "check for a division by zero");
    return value;
  }

  std::string text(int index) const {
    size_t size = 0;
    const char* bytes = lua_tolstring(lua_, index, &size);
    std::string result(bytes, size);
    if (!is_utf8(result))
      throw Error(ErrorCode::invalid_value, "text that is not valid UTF-8", "save the script as UTF-8");
    return result;
  }

  LuaTable table(int index, int depth) {
    if (depth > kDeepest)
      throw Error(ErrorCode::invalid_value, "a table nested deeper than 32 levels",
                  "check for a table that contains itself");
    if (lua_checkstack(lua_, 4) == 0) throw Error(ErrorCode::invalid_value, "the Lua stack is full");
    if (lua_getmetatable(lua_, index) != 0)
      throw Error(ErrorCode::invalid_value, "a table with a metatable",
                  "give a plain table: inherited fields would be ignored");
    LuaTable result;
    std::map<lua_Integer, LuaValue> items;
    lua_pushnil(lua_);
    while (lua_next(lua_, index) != 0) {
      LuaValue value = read(-1, depth + 1);
      lua_pop(lua_, 1);
      if (lua_type(lua_, -1) == LUA_TSTRING)
        result.fields.emplace(text(-1), std::move(value));
      else if (lua_isinteger(lua_, -1) != 0)
        items.emplace(lua_tointegerx(lua_, -1, nullptr), std::move(value));
      else
        throw Error(ErrorCode::invalid_value,
                    std::string("a table with a key of type ") + lua_typename(lua_, lua_type(lua_, -1)),
                    "use names as keys, or 1, 2, ... in a list");
    }
    for (auto& [position, value] : items) {
      const auto expected = static_cast<lua_Integer>(result.items.size()) + 1;
      if (position != expected)
        throw Error(ErrorCode::invalid_value, "a list without item " + std::to_string(expected),
                    "remove the nil inside the list");
      result.items.push_back(std::move(value));
    }
    return result;
  }

  lua_State* lua_;
  int64_t count_ = 0;
};
}  // namespace

const LuaValue* LuaTable::find(const std::string& name) const {
  const auto it = fields.find(name);
  return it == fields.end() || it->second.is_nil() ? nullptr : &it->second;
}
const LuaValue& LuaTable::at(const std::string& name) const {
  if (const auto* value = find(name)) return *value;
  throw std::logic_error("no argument '" + name + "'");
}
bool LuaTable::is_true(const std::string& name) const {
  bool value = false;
  read(name, value);
  return value;
}

LuaValue read_value(lua_State* lua, int index) { return Reader(lua).read(index, 0); }

Json to_json(const LuaValue& value, const std::string& subject) {
  if (const Json* json = value.plain()) return *json;
  if (!value.is_table())
    throw Error(ErrorCode::invalid_value, subject + " must be plain values, but is " + shown(value));
  const auto& [items, fields] = value.table();
  if (!items.empty() && !fields.empty())
    throw Error(ErrorCode::invalid_value, subject + " is " + shown(value), "give one of the two");
  Json result = items.empty() ? Json::object() : Json::array();
  for (const auto& item : items)
    result.push_back(to_json(item, subject + "[" + std::to_string(result.size() + 1) + "]"));
  for (const auto& [name, field] : fields) result[name] = to_json(field, subject + "." + name);
  return result;
}

std::string shown(const LuaValue& value) {
  if (value.is_nil()) return "nil";
  if (const Json* json = value.plain()) return shown(*json);
  if (const auto* object = std::get_if<Object*>(&value.data)) return std::string("a ") + class_of(**object);
  if (const auto* other = std::get_if<Unsupported>(&value.data)) return "a " + other->type;
  const LuaTable& table = value.table();
  if (!table.fields.empty() && !table.items.empty()) return "a table with both a list and named fields";
  if (table.fields.empty()) return table.items.empty() ? "an empty table" : "a list";
  return "a table";
}
}  // namespace optrush
