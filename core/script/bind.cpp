#include <vector>

#include "base/suggest.h"
#include "optrush/error.h"
#include "script/api.h"
#include "script/settings.h"
#include "script/userdata.h"

namespace optrush {
namespace {
Object* self_of(lua_State* lua, const Function& function) {
  Object* self = object_at(lua, 1);
  if (self != nullptr && class_of(*self) == function.owner) return self;
  const std::string title = function.title();
  throw Error(ErrorCode::invalid_value, title + " is called with a dot",
              "call it with a colon: " + title + (function.parameters.empty() ? "()" : " { ... }"));
}

/// Reads argument `index` of the call. Errors name the argument.
LuaValue read_argument(lua_State* lua, const Function& function, int index) {
  try {
    return read_value(lua, index);
  } catch (const Error& e) {
    const int position = function.owner.empty() ? index : index - 1;
    throw Error(e.code(),
                function.title() + ": argument " + std::to_string(position) + " holds " + e.message(),
                e.cure());
  }
}

Object invoke(lua_State* lua, const Function& function, int given) {
  Call call{.name = function.name, .where = position(lua)};
  const bool method = !function.owner.empty();
  if (method) call.self = self_of(lua, function);
  std::vector<LuaValue> values;
  for (int i = method ? 2 : 1; i <= given; ++i) values.push_back(read_argument(lua, function, i));
  for (const auto& value : values) check_dtype_of(value, context_of(lua), call.where);
  call.arguments = checked_arguments(function, std::move(values));
  return function.call(context_of(lua), call);
}

void push_json(lua_State* lua, const Json& json) {
  static_assert(std::is_trivially_destructible_v<Json::const_iterator>);
  luaL_checkstack(lua, 3, "a result nested too deep");
  switch (json.type()) {
    case Json::value_t::boolean:
      return lua_pushboolean(lua, json.get<bool>() ? 1 : 0);
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return lua_pushinteger(lua, json.get<int64_t>());
    case Json::value_t::number_float:
      return lua_pushnumber(lua, json.get<double>());
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      lua_pushlstring(lua, text.data(), text.size());
      return;
    }
    case Json::value_t::array:
      lua_createtable(lua, static_cast<int>(json.size()), 0);
      for (size_t i = 0; i < json.size(); ++i) {
        push_json(lua, json[i]);
        lua_rawseti(lua, -2, static_cast<lua_Integer>(i) + 1);
      }
      return;
    case Json::value_t::object:
      lua_createtable(lua, 0, static_cast<int>(json.size()));
      for (auto it = json.begin(); it != json.end(); ++it) {
        lua_pushlstring(lua, it.key().data(), it.key().size());
        push_json(lua, it.value());
        lua_rawset(lua, -3);
      }
      return;
    default:
      return lua_pushnil(lua);
  }
}

/// The C function behind every bound function. Its upvalue is the entry of the binding table.
int call_bound(lua_State* lua) {
  const auto& function = *static_cast<const Function*>(lua_touserdata(lua, lua_upvalueindex(1)));
  const int given = lua_gettop(lua);
  luaL_checkstack(lua, 8, "too many arguments");
  Object& result = push_object(lua);
  if (!attempt(lua, result, [&](Object& slot) { slot = invoke(lua, function, given); })) raise(lua, result);
  if (const auto* json = std::get_if<Json>(&result))
    push_json(lua, *json);
  else if (std::holds_alternative<std::monostate>(result))
    lua_pushvalue(lua, 1);  // a method without a result returns its object, so that calls can be chained
  else
    luaL_setmetatable(lua, class_of(result));
  return 1;
}

/// object.key: a method or a property. Upvalues: methods and properties by name, and their owner.
int index_object(lua_State* lua) {
  lua_settop(lua, 2);
  lua_pushvalue(lua, 2);
  if (lua_rawget(lua, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  lua_pushvalue(lua, 2);
  if (lua_rawget(lua, lua_upvalueindex(2)) != LUA_TNIL) {
    lua_pushvalue(lua, 1);
    lua_call(lua, 1, 1);
    return 1;
  }
  Object& failure = push_object(lua);
  attempt(lua, failure, [&](Object&) {
    const std::string owner = lua_tolstring(lua, lua_upvalueindex(3), nullptr);
    const auto names = api().names(owner);
    const std::string key = shown(read_value(lua, 2));
    const std::string bare = lua_type(lua, 2) == LUA_TSTRING ? lua_tolstring(lua, 2, nullptr) : "";
    throw Error(ErrorCode::unknown_name, (owner.empty() ? "optrush" : "this " + owner) + " has no " + key,
                bare == "swiglu_stack"
                    ? "use rush.operator(\"mlp\", { dim = …, ffn_dim = …, [\"repeat\"] = … })"
                : names.empty() ? "it has no fields; pass it to other functions"
                                : did_you_mean(bare, names));
  });
  raise(lua, failure);
}

int refuse_assignment(lua_State* lua) {
  Object& failure = push_object(lua);
  attempt(lua, failure, [&](Object&) {
    throw Error(ErrorCode::invalid_value, "the objects of optrush cannot be changed",
                "store your values in a separate table");
  });
  raise(lua, failure);
}

/// `name`: of the class in Lua; `owner`: of its functions in the binding table.
void register_class(lua_State* lua, const char* name, const char* owner) {
  push_class(lua, name);
  lua_newtable(lua);
  lua_newtable(lua);
  for (const Function& function : api().functions) {
    if (function.owner != owner) continue;
    lua_pushlightuserdata(lua, const_cast<Function*>(&function));  // never written; Lua has no const pointers
    lua_pushcclosure(lua, call_bound, 1);
    lua_setfield(lua, function.property ? -2 : -3, function.name.c_str());
  }
  lua_pushstring(lua, owner);
  lua_pushcclosure(lua, index_object, 3);
  lua_setfield(lua, -2, "__index");
  lua_pushcfunction(lua, refuse_assignment);
  lua_setfield(lua, -2, "__newindex");
  lua_pop(lua, 1);
}
}  // namespace

void register_classes(lua_State* lua) {
  register_class(lua, class_of(Object()), "");
  for (const Class& known : api().classes)
    if (known.kind == Class::Kind::object) register_class(lua, known.name.c_str(), known.name.c_str());
}
}  // namespace optrush
