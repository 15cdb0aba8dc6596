#pragma once
#include <string>
#include <vector>

#include "optrush/options.h"
#include "script/lua_value.h"

namespace optrush {
class ScriptContext;

/// A checked call on its way to C++.
struct Call {
  Object* self = nullptr;  ///< of a method
  LuaTable arguments;      ///< by parameter name
  std::string where;       ///< script:line
};

/// A parameter of a function or a field of a table. Its type is one of an option's (integer, number, string,
/// boolean, list) with that option's range and choices, or in the notation of the Lua language server: the
/// name of a class, X[], table<string, X>, X|Y. With a trailing "?" it may be left out, as with a fallback;
/// the fallback is only shown.
using Parameter = OptionSchema;
bool required(const Parameter&);

/// A class of the editor stubs. What it is decides how a value is checked.
struct Class {
  enum class Kind : uint8_t {
    object,  ///< made by a bound function
    table,   ///< a table with these fields and no others
    result,  ///< a table that a bound function returns
    alias    ///< another name for the type in `alias`
  };
  Kind kind = Kind::object;
  std::string name, doc, alias;
  std::vector<Parameter> fields;
};

struct Function {
  std::string owner, name;  ///< owner: class of a method; empty: a function of the module
  std::string doc;
  std::vector<Parameter> parameters;
  std::string returns, returns_doc;
  Object (*call)(ScriptContext&, const Call&) = nullptr;
  bool property = false;  ///< report.folder instead of report:folder()

  /// As a script calls it: "rush.rung", "Experiment:ladder".
  std::string title() const;
};

/// The binding table: everything a script can call. Registration, argument checks, docs/reference/lua.md and
/// the editor stubs are made from it.
struct Api {
  std::vector<Class> classes;
  std::vector<Function> functions;

  const Class* find_class(const std::string& name) const;
  /// Names of the functions of a class; "": of the module.
  std::vector<std::string> names(const std::string& owner) const;
};
const Api& api();
}  // namespace optrush
