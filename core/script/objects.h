#pragma once
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "experiment/experiment.h"

namespace optrush {
/// The result of rush.llama, rush.operator, rush.collective and rush.checkpoint: the model of a spec.
struct ModelChoice {
  std::string kind;
  Json fields;
};

/// A named text that is found on every machine.
struct Corpus {
  std::string name, path;
  std::vector<std::string> extensions;
};

/// An experiment while its script still adds to it.
struct Draft {
  Experiment experiment;
  std::vector<Variant> variants;  ///< of what it has so far
  std::string where;
  bool ran = false;
};

struct Report {
  std::filesystem::path folder;
};

/// The error of a call, on its way to Lua.
struct Failure {
  std::string text;
};

/// The result of a bound function: an object of one of the classes, plain data as Json, a failure, or
/// nothing. It lives in a Lua userdata. A Draft belongs to the ScriptContext, which outlives the Lua state.
using Object =
    std::variant<std::monostate, ModelChoice, DataSpec, Corpus, Rung, Draft*, Report, Json, Failure>;

/// Name of the object's class in Lua: "Rung".
const char* class_of(const Object&);
}  // namespace optrush
