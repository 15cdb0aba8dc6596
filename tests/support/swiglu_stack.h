#pragma once
#include "base/spec_json.h"
#include "support/training.h"

namespace optrush::testing {
/// A small stack of SwiGLU MLPs.
inline RunSpec stack_spec(std::vector<PluginUse> plugins = {}) {
  RunSpec spec = nano_spec(std::move(plugins));
  spec.model_kind = "swiglu_stack";
  spec.model = validate_model("swiglu_stack", {{"dim", 32}, {"ffn_dim", 48}, {"n_layers", 3}}, "test");
  return spec;
}
}  // namespace optrush::testing
