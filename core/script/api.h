#pragma once
#include <string>
#include <vector>

#include "optrush/options.h"
#include "script/lua_value.h"

namespace optrush {
class ScriptContext;

/// A checked call of a bound function.
struct Call {
  std::string name;        ///< of the function
  Object* self = nullptr;  ///< the object of a method
  LuaTable arguments;      ///< arguments by parameter name
  std::string where;       ///< script:line
};

/// A parameter of a function or a field of a table. Its type is an option's type (integer, number, string,
/// boolean, list) with the option's range and choices, or a type in the notation of the Lua language server:
/// the name of a class, X[], table<string, X>, X|Y. A trailing "?" or a fallback makes it optional.
using Parameter = OptionSchema;
bool required(const Parameter&);

/// A parsed type in the notation of Parameter.
struct Type {
  enum class Form : uint8_t { name, list, map };
  Form form = Form::name;
  std::string name;  ///< name of a scalar or class; for lists and maps, the type of the items
};

/// The alternatives of a type such as "Model|LlamaFields?", without the "?". A bar in <> is no separator.
std::vector<Type> alternatives(const std::string& type);

/// A class of the editor stubs. Its kind decides how a value is checked.
struct Class {
  enum class Kind : uint8_t {
    object,  ///< created by a bound function
    table,   ///< a table with only these fields
    result,  ///< a table that a bound function returns
    alias    ///< another name for the type in `alias`
  };
  Kind kind = Kind::object;
  std::string name, doc;
  std::vector<Parameter> fields;
  std::string alias = {};
};

struct Function {
  std::string owner, name;  ///< owner: class of a method; empty for a function of the module
  std::string doc;
  std::vector<Parameter> parameters;
  std::string returns;
  Object (*call)(ScriptContext&, const Call&) = nullptr;
  bool property = false;  ///< called as report.folder instead of report:folder()

  /// The name in a script: "rush.rung", "Experiment:ladder".
  std::string title() const;
};

/// The binding table: everything that a script can call. Checks, docs and editor stubs follow from it.
struct Api {
  std::vector<Class> classes;
  std::vector<Function> functions;

  const Class* find_class(const std::string& name) const;
  /// Names of the functions of a class; "" for the module.
  std::vector<std::string> names(const std::string& owner) const;
};
const Api& api();
/// The two parts of api().
std::vector<Class> api_classes();
std::vector<Function> api_functions();

/// The arguments of a call by parameter name, checked against the binding table. Numbers are converted to the
/// parameter's type. Errors name the function and the argument.
LuaTable checked_arguments(const Function&, std::vector<LuaValue> given);
}  // namespace optrush
