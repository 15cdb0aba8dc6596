#pragma once
#include <string>
#include <vector>

#include "optrush/json.h"
#include "optrush/options.h"
#include "optrush/spec.h"
#include "spec/operator_spec.h"

namespace optrush {
/// A kind of model without torch: what it is described by.
struct ModelKind {
  std::string name;
  Json (*validate)(const Json& model, const std::string& where);
  std::vector<OptionSchema> (*fields)();
  /// The necessary work of a step, by operator_work(); null if the kind does not declare it.
  OperatorWork (*work)(const Json& model, const TrainSpec&) = nullptr;
};
const std::vector<ModelKind>& model_kinds();

/// A kind and fields that stored results of earlier versions have, in those of today.
void rename_old_kind(std::string& kind, Json& model);
}  // namespace optrush
