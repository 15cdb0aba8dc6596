#pragma once
#include <string>
#include <vector>

#include "optrush/json.h"
#include "optrush/options.h"

namespace optrush {
/// A kind of model without torch: what it is described by.
struct ModelKind {
  std::string name;
  Json (*validate)(const Json& model, const std::string& where);
  std::vector<OptionSchema> (*fields)();
};
const std::vector<ModelKind>& model_kinds();
}  // namespace optrush
