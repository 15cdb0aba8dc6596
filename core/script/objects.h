#pragma once
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "experiment/experiment.h"

namespace optrush {
/// A model, the result of rush.llama, rush.operator, rush.collective and rush.checkpoint.
struct ModelChoice {
  std::string kind;
  Json fields;
};

/// A named text that exists on every machine.
struct Corpus {
  std::string name, path;
  std::vector<std::string> extensions;
};

/// An experiment that its script is still building.
struct Draft {
  Experiment experiment;
  std::vector<Variant> variants;  ///< variants of its parts so far
  std::string where;
  bool ran = false;
};

struct Report {
  std::filesystem::path folder;
};

/// The error of a call, to be raised in Lua.
struct Failure {
  std::string text;
};

/// The result of a bound function: an object of a class, plain data as Json, a failure, or nothing. It lives
/// in a Lua userdata. A Draft belongs to the ScriptContext, which outlives the Lua state.
using Object =
    std::variant<std::monostate, ModelChoice, DataSpec, Corpus, Rung, Draft*, Report, Json, Failure>;

/// The name of the object's class in Lua: "Rung".
const char* class_of(const Object&);
}  // namespace optrush
