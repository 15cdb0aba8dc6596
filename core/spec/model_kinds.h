#pragma once
#include <string>
#include <vector>

#include "optrush/json.h"
#include "optrush/options.h"
#include "optrush/spec.h"
#include "spec/operator_spec.h"

namespace optrush {
/// A kind of model, as far as it is known without torch: its fields and its work.
struct ModelKind {
  std::string name;
  Json (*validate)(const Json& model, const std::string& where);
  std::vector<OptionSchema> (*fields)();
  /// Bytes and FLOPs that a step needs (operator_work()); null if the kind does not declare them.
  OperatorWork (*work)(const Json& model, const TrainSpec&) = nullptr;
};
const std::vector<ModelKind>& model_kinds();

/// Replaces the names of earlier versions in a stored kind and model by the present names.
void rename_old_kind(std::string& kind, Json& model);
}  // namespace optrush
