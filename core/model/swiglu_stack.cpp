// A stack of SwiGLU MLPs and nothing else: x + mlp(x), layer after layer, so that what is done to an MLP is
// all that a run shows. Without the residual the signal dies out within a few layers. It takes random
// activations (B, S, D), which stand for the layers below: like theirs, their gradient is computed. Its loss
// is the mean square of the output, whose gradient is neither zero nor large anywhere.
#include "model/swiglu_stack.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "model/binder.h"
#include "model/declare.h"
#include "model/operators.h"

namespace optrush {
namespace {
std::unique_ptr<Unit> stack_input(at::ScalarType dtype) {
  auto unit = make_unit("input", "embed", -1);
  unit->build = [dtype](const Binder&) -> UnitFunction {
    return [dtype](const Tensor&, const Batch& batch) {
      return batch.input.to(dtype).detach().requires_grad_(at::GradMode::is_enabled());
    };
  };
  return unit;
}

std::unique_ptr<Unit> block(int64_t layer, const SwigluStackSpec& spec, Params& params,
                            at::ScalarType dtype) {
  const std::string path = "model.layers." + std::to_string(layer);
  const Initializer init = spec.init_std != 0 ? normal(spec.init_std) : uniform_by_fan_in();
  auto unit = make_unit(path, "block", layer);
  const Unit& mlp = *unit->children.emplace_back(
      declare_mlp(params, path + ".mlp", layer, {spec.dim, spec.ffn_dim, init, init, dtype}));
  unit->build = [&mlp](const Binder& bind) -> UnitFunction {
    return
        [mlp = bind.unit(mlp)](const Tensor& x_BSD, const Batch& batch) { return x_BSD + mlp(x_BSD, batch); };
  };
  return unit;
}

/// The sum over positions of the mean square; divided by their number, as every loss, it is the mean.
std::unique_ptr<Unit> head() {
  auto unit = make_unit("head", "head", -1);
  unit->build = [](const Binder&) -> UnitFunction {
    return [](const Tensor& x_BSD, const Batch&) {
      return x_BSD.to(plain::accumulate_type(x_BSD)).square().mean(-1).sum();
    };
  };
  return unit;
}
}  // namespace

Model declare_swiglu_stack(const SwigluStackSpec& spec, Params& params, at::ScalarType dtype) {
  Model model;
  model.units.push_back(stack_input(dtype));
  for (int64_t layer = 0; layer < spec.n_layers; ++layer)
    model.units.push_back(block(layer, spec, params, dtype));
  model.units.push_back(head());
  model.prepare = [](Batch&) {};
  model.input_dim = spec.dim;
  return model;
}
}  // namespace optrush
