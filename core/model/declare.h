#pragma once
#include <memory>
#include <string>

#include "optrush/spec.h"
#include "optrush/unit.h"
#include "params/init.h"

namespace optrush {
/// Helpers to declare models of any kind.
std::unique_ptr<Unit> make_unit(std::string path, std::string role, int64_t layer);

/// Adds a matrix (out, in) and the module in `unit` that multiplies by it.
const Module& add_linear(Unit& unit, Params&, const std::string& path, Param matrix);

struct MlpShape {
  int64_t dim = 0, ffn_dim = 0;
  Initializer gate_and_up, down;
  Activation activation = Activation::silu;
  at::ScalarType dtype = at::kFloat;
};
/// Declares a gated MLP (arXiv:2002.05202) as a unit: gate_proj, up_proj and down_proj below `path`.
std::unique_ptr<Unit> declare_mlp(Params&, const std::string& path, int64_t layer, const MlpShape&);
}  // namespace optrush
