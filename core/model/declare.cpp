#include "model/declare.h"

#include <array>

#include "model/binder.h"
#include "model/operators.h"

namespace optrush {
std::string_view to_string(UnitRole role) {
  static constexpr std::array<std::string_view, 7> kNames = {"embed",   "block",   "attention", "mlp",
                                                             "experts", "mixture", "head"};
  return kNames.at(static_cast<size_t>(role));
}

std::unique_ptr<Unit> make_unit(std::string path, UnitRole role, int64_t layer) {
  auto unit = std::make_unique<Unit>();
  unit->path = std::move(path);
  unit->role = role;
  unit->layer = layer;
  return unit;
}

Param vector_param(const std::string& name, int64_t size, const std::string& axis, Initializer init,
                   at::ScalarType dtype) {
  return {
      .name = name, .shape = {size}, .axes = {axis}, .init = std::move(init), .dtype = dtype, .decay = false};
}

namespace {
const Module& add_weight(Unit& unit, Params& params, const std::string& path, const char* role, Param weight,
                         bool biased) {
  Param bias =
      vector_param(path + ".bias", weight.shape.front(), weight.axes.front(), constant(0), weight.dtype);
  weight.name = path + ".weight";
  Module& module =
      unit.modules.emplace_back(Module{path, role, unit.layer, {&params.add(std::move(weight))}});
  if (biased) module.params.push_back(&params.add(std::move(bias)));
  return module;
}
}  // namespace

const Module& add_linear(Unit& unit, Params& params, const std::string& path, Param matrix, bool biased) {
  return add_weight(unit, params, path, "linear", std::move(matrix), biased);
}

const Module& add_convolution(Unit& unit, Params& params, const std::string& path, Param weight,
                              bool biased) {
  return add_weight(unit, params, path, "convolution", std::move(weight), biased);
}

std::unique_ptr<Unit> declare_mlp(Params& params, const std::string& path, int64_t layer,
                                  const MlpShape& shape) {
  auto unit = make_unit(path, UnitRole::mlp, layer);
  const auto matrix = [&](int64_t out, int64_t in, std::vector<std::string> axes, const Initializer& init) {
    return Param{.shape = {out, in}, .axes = std::move(axes), .init = init, .dtype = shape.dtype};
  };
  const Param inner = matrix(shape.ffn_dim, shape.dim, {"ffn", "model"}, shape.gate_and_up);
  const bool gated = shape.activation != Activation::relu2;
  const Module* gate = gated ? &add_linear(*unit, params, path + ".gate_proj", inner, shape.biased) : nullptr;
  const Module& up = add_linear(*unit, params, path + ".up_proj", inner, shape.biased);
  const Module& down =
      add_linear(*unit, params, path + ".down_proj",
                 matrix(shape.dim, shape.ffn_dim, {"model", "ffn"}, shape.down), shape.biased);
  const bool silu = shape.activation == Activation::silu;
  const Module* glu =
      gated ? &unit->modules.emplace_back(Module{path + ".act_fn", silu ? "swiglu" : "geglu", layer, {}})
            : nullptr;
  Module& whole = unit->modules.emplace_back(Module{path, "mlp", layer, {}});
  for (const Module* linear : {gate, &up, &down})
    if (linear != nullptr) whole.params.push_back(linear->params[0]);
  unit->build = [&whole, &up, &down, gate, glu,
                 activation = shape.activation](const Binder& bind) -> UnitFunction {
    Ops::MlpParts parts{
        gate == nullptr ? Ops::Linear::Fn() : bind.linear(*gate), bind.linear(up), bind.linear(down), {}};
    if (glu == nullptr)
      parts.glu = [](const Tensor&, const Tensor& up) { return plain::squared_relu(up); };
    else
      parts.glu = activation == Activation::silu ? bind.swiglu(*glu) : bind.geglu(*glu, activation);
    return [mlp = bind.mlp(whole), parts = std::move(parts)](const Tensor& x, const Batch&) {
      return mlp(x, parts);
    };
  };
  return unit;
}
}  // namespace optrush
