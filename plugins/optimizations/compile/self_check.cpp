#include "self_check.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "optrush/error.h"
#include "optrush/scopes.h"
#include "unit_graph.h"

namespace optrush::compile {
namespace {
/// The tolerance allows a different order of sums, but not a different formula.
double tolerance(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return 1e-9;
    case at::kFloat:
      return 1e-3;
    default:
      return 5e-2;
  }
}

/// If a value differs in its last bit, it may be rounded to another number of 8 bits, which is up to a
/// quarter away.
constexpr double kToleranceOfFp8 = 0.25;

bool multiplies_fp8(const UnitGraph& graph) {
  return graph.text().find("aten::_scaled_mm") != std::string::npos;
}

/// Different values of the same distribution as `x`, from a separate generator, so that the run's random
/// numbers do not change.
Tensor other_values(const Tensor& x) {
  auto generator = at::globalContext().defaultGenerator(x.device()).clone();
  generator.set_current_seed(20241121);
  const auto scale = x.detach().to(at::kFloat).abs().mean().item<double>();
  const Tensor values = at::randn(x.sizes(), generator, x.options().requires_grad(false)) * (scale + 1e-3);
  return at::empty_strided(x.sizes(), x.strides(), values.options())
      .copy_(values)
      .requires_grad_(x.requires_grad());
}

/// Moved along the first and the last axis, so that indices stay in range.
Tensor moved(const Tensor& x) {
  if (!x.defined() || !x.is_non_overlapping_and_dense()) return x;
  if (x.dim() == 0) return x.is_floating_point() ? x.detach() * 1.25 : x;
  const Tensor values = x.detach().roll({1}, {0}).roll({1}, {x.dim() - 1});
  return at::empty_strided(x.sizes(), x.strides(), values.options())
      .copy_(values)
      .requires_grad_(x.requires_grad());
}

double difference(const Tensor& is, const Tensor& expected) {
  if (!is.isfinite().all().item<bool>()) return INFINITY;
  const double largest = expected.abs().max().item<double>();
  const double apart = (is - expected).abs().max().item<double>();
  return apart == 0 ? 0 : apart / std::max(largest, 1e-12);
}
}  // namespace

Batch other_batch(Batch batch) {
  for (Tensor* tensor : {&batch.tokens, &batch.labels, &batch.positions, &batch.input, &batch.cos, &batch.sin,
                         &batch.segments.ids})
    *tensor = moved(*tensor);
  for (auto& [name, tensor] : batch.named) tensor = moved(tensor);
  return batch;
}

double self_check(const CompiledUnit& compiled, const UnitGraph& graph, const UnitFunction& function,
                  const Unit& unit, const Tensor& x, const Batch& first_batch) {
  const at::AutoGradMode with_gradients(true);
  const Batch batch = other_batch(first_batch);
  const Tensor start = other_values(x);
  const Tensors inputs = unit_inputs(unit, start, batch);
  Tensors leaves;
  for (const auto& input : inputs)
    if (input.requires_grad()) leaves.push_back(input);

  Tensor gradient;
  const auto run = [&](const Tensor& out) {
    if (!gradient.defined()) gradient = other_values(at::ones_like(out));
    auto results =
        torch::autograd::grad({out}, leaves, {gradient}, /*retain_graph=*/{}, /*create_graph=*/false,
                              /*allow_unused=*/true);
    results.insert(results.begin(), out.detach());
    return results;
  };
  const Tensors expected = run(traceable_output(function, unit, start, batch));
  const Tensors computed = run(compiled(inputs));

  const auto type = autocast_type(x.device().type()).value_or(x.scalar_type());
  const double allowed = multiplies_fp8(graph) ? kToleranceOfFp8 : tolerance(type);
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].defined() && !computed[i].defined()) continue;
    const std::string what = i == 0 ? "its output" : "the gradient of its input " + std::to_string(i - 1);
    if (expected[i].defined() != computed[i].defined())
      throw Error(ErrorCode::wrong_result,
                  "compiled " + unit.path + " differs from its eager code: " + what + " is " +
                      (expected[i].defined() ? "missing" : "not present in the eager code"),
                  "remove the plugin 'compile' from the stack");
    const double apart = difference(computed[i].to(at::kDouble), expected[i].to(at::kDouble));
    worst = std::max(worst, apart);
    if (!(apart <= allowed))
      throw Error(ErrorCode::wrong_result,
                  "compiled " + unit.path + " differs from its eager code: " + what + " differs by " +
                      std::to_string(apart) + " of its largest value; " + std::to_string(allowed) +
                      " is allowed",
                  "remove the plugin 'compile' from the stack, or the plugin whose operator it cannot trace");
  }
  return worst;
}
}  // namespace optrush::compile
