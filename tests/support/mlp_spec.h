#pragma once
#include "spec/spec_json.h"
#include "support/training.h"

namespace optrush::testing {
/// A model of three small MLPs.
inline RunSpec mlp_spec(std::vector<PluginUse> plugins = {}) {
  RunSpec spec = nano_spec(std::move(plugins));
  spec.model_kind = "operator";
  spec.model =
      validate_model("operator", {{"op", "mlp"}, {"dim", 32}, {"ffn_dim", 48}, {"repeat", 3}}, "test");
  return spec;
}
}  // namespace optrush::testing
