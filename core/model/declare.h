#pragma once
#include <memory>
#include <string>

#include "optrush/spec.h"
#include "optrush/unit.h"
#include "params/init.h"

namespace optrush {
/// Helpers to declare models of any kind.
std::unique_ptr<Unit> make_unit(std::string path, UnitRole role, int64_t layer);

/// Adds a matrix (out, in), a bias (out) if asked for, and the module in `unit` that applies them.
const Module& add_linear(Unit& unit, Params&, const std::string& path, Param matrix, bool biased = false);
/// The same for a short convolution, whose weight is (channels, 1, positions).
const Module& add_convolution(Unit& unit, Params&, const std::string& path, Param weight,
                              bool biased = false);
/// A vector as a bias or the weight of a norm is declared.
Param vector_param(const std::string& name, int64_t size, const std::string& axis, Initializer,
                   at::ScalarType);

struct MlpShape {
  int64_t dim = 0, ffn_dim = 0;
  Initializer gate_and_up, down;
  Activation activation = Activation::silu;
  bool biased = false;
  at::ScalarType dtype = at::kFloat;
};
/// Declares an MLP as a unit: gate_proj, up_proj and down_proj below `path` (arXiv:2002.05202). With
/// Activation::relu2 it has no gate_proj.
std::unique_ptr<Unit> declare_mlp(Params&, const std::string& path, int64_t layer, const MlpShape&);
}  // namespace optrush
