#include "plugin_check/run_case.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "base/text.h"
#include "optrush/scopes.h"
#include "plugin_check/library_state.h"
#include "plugin_check/small_step.h"

namespace optrush {
namespace {
/// The types of a run: those of parameters, and of autocast if there is one.
struct Types {
  std::string name, parameters;
  std::optional<at::ScalarType> autocast;
};
const std::vector<Types> kTypes = {{"fp32", "fp32", {}},
                                   {"bf16 autocast", "fp32", at::kBFloat16},
                                   {"fp16 autocast", "fp32", at::kHalf},
                                   {"bf16", "bf16", {}}};

struct Halves {
  Tensors outputs, gradients;  ///< in fp64
};

bool floating(const Tensor& tensor) { return tensor.defined() && tensor.is_floating_point(); }

/// Runs forward and backward on `inputs`, with `roots` as output gradients in the types of the outputs.
Halves halves_of(const Differentiable& op, const Tensors& inputs, const Tensors& roots) {
  auto result = op->forward(inputs);
  Tensors gradients;
  for (size_t i = 0; i < result.outputs.size(); ++i)
    gradients.push_back(floating(result.outputs[i]) ? roots.at(i).to(result.outputs[i].scalar_type())
                                                    : Tensor());
  Halves halves;
  for (const Tensor& out : result.outputs)
    halves.outputs.push_back(floating(out) ? out.to(at::kDouble) : Tensor());
  for (const Tensor& gradient : op->backward(result.saved, gradients))
    halves.gradients.push_back(floating(gradient) ? gradient.to(at::kDouble) : Tensor());
  return halves;
}

Tensors in_type(const Tensors& tensors, at::ScalarType type) {
  Tensors wide;
  for (const Tensor& tensor : tensors) wide.push_back(floating(tensor) ? tensor.to(type) : tensor);
  return wide;
}

/// A few roundings of the narrowest type: in the result, its inputs and their sums.
double element_tolerance(const Tensors& inputs_and_outputs) {
  constexpr double kRoundings = 8;
  double epsilon = 0;
  for (const Tensor& tensor : inputs_and_outputs) {
    if (!floating(tensor)) continue;
    const auto type = tensor.scalar_type();
    epsilon = std::max(epsilon, type == at::kDouble  ? 0x1p-52
                                : type == at::kFloat ? 0x1p-20  // sums of a few dozen terms in any order
                                : type == at::kHalf  ? 0x1p-11
                                                     : 0x1p-8);
  }
  return kRoundings * epsilon;
}

/// Allowed difference of two results: per element relative to the largest value, or of all elements by the L2
/// norm.
struct Allowed {
  double element = 0, norm = 0;
};

void compare_tensors(const std::string& what, const Tensors& got, const Tensors& expected,
                     const Allowed& allowed) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (!got[i].defined() || !expected.at(i).defined()) {
      if (got[i].defined() != expected[i].defined())
        throw Error(ErrorCode::wrong_result, what + " " + std::to_string(i) + " exists in one type only");
      continue;
    }
    const Tensor difference = got[i] - expected[i];
    const bool by_norm = allowed.norm > 0;
    const double apart = (by_norm ? difference.norm() : difference.abs().max()).item<double>();
    const double scale = (by_norm ? expected[i].norm() : expected[i].abs().max()).item<double>();
    const double tolerance = by_norm ? allowed.norm : allowed.element;
    if (!(apart <= tolerance * scale))
      throw Error(ErrorCode::wrong_result, what + " " + std::to_string(i) + " differs by " +
                                               Json(apart / scale).dump() +
                                               (by_norm ? " of its norm; " : " of its largest value; ") +
                                               Json(tolerance).dump() + " is allowed");
  }
}

/// A plugin with effect `precision` may round to 8 bits, of which 2 or 3 are the mantissa.
constexpr double kFewBits = 0.1;

/// Returns false if it draws random numbers, which differ by type.
bool compare_with_double(const CheckCase& c, const ObservedCall& observed, const Catalogue& catalogue) {
  const bool few_bits = !keeps_its_bits(c, catalogue);
  const Differentiable& op = observed.op;
  const at::NoGradGuard no_grad;
  const DrawObserver draws;
  Tensors roots, seen = observed.inputs;
  const Tensors outputs = op->forward(observed.inputs).outputs;
  if (draws.drew()) return false;
  for (const Tensor& out : outputs) {
    roots.push_back(floating(out) ? at::randn(out.sizes(), out.options()) : Tensor());
    seen.push_back(out);
  }
  const Halves narrow = halves_of(op, observed.inputs, roots);
  // A Differentiable that rounds internally need not support fp64.
  const auto widest = few_bits ? at::kFloat : at::kDouble;
  const Halves wide = halves_of(op, in_type(observed.inputs, widest), roots);
  if (c.without_values) return true;
  const Allowed allowed{element_tolerance(seen), few_bits ? kFewBits : 0};
  compare_tensors("output", narrow.outputs, wide.outputs, allowed);
  compare_tensors("gradient of input", narrow.gradients, wide.gradients, allowed);
  return true;
}

std::vector<ObservedCall> calls_in(const Types& types, const CheckCase& c, std::unique_ptr<Session>& run,
                                   const CheckContext& context) {
  RunSpec spec = c.spec;
  spec.train.dtype = types.parameters;
  run = open_run(spec, context, [&](Recipe& recipe) {
    if (types.autocast)
      recipe.scope(Phase::precision, [type = *types.autocast, device = context.device]() -> Scopes::Guard {
        return std::make_shared<Autocast>(device.type(), type);
      });
  });
  return observed_calls(*run);
}
}  // namespace

std::string check_types(const CheckCase& c, const CheckContext& context) {
  std::set<std::string> names, drawing;
  std::vector<std::string> checked, refused;
  open_case(c, c.spec, context);
  for (const Types& types : kTypes) {
    std::unique_ptr<Session> run;  // keeps the objects that the calls refer to
    std::vector<ObservedCall> calls;
    try {
      calls = calls_in(types, c, run, context);
    } catch (const Error& e) {
      refused.push_back("not in " + types.name + ": " + e.message());
      continue;
    } catch (const c10::Error& e) {
      const std::string message = e.what_without_backtrace();
      if (message.find("not implemented for") == std::string::npos) throw;
      refused.push_back("not in " + types.name + ": " + message);
      continue;
    }
    for (const ObservedCall& observed : calls) {
      try {
        if (!compare_with_double(c, observed, context.catalogue)) {
          drawing.insert(observed.op->name);
          continue;
        }
      } catch (const std::exception& e) {
        throw Error(ErrorCode::wrong_result,
                    "operator '" + observed.op->name + "' in " + types.name + ": " + e.what());
      }
      names.insert(observed.op->name);
    }
    checked.push_back(types.name);
  }
  if (!drawing.empty())
    refused.push_back(join({drawing.begin(), drawing.end()}) + " not compared: random numbers");
  if (names.empty())
    throw Skip(ErrorCode::unsupported, drawing.empty()
                                           ? "it calls no differentiable operator"
                                           : "its operators draw random numbers, which differ by type: " +
                                                 join({drawing.begin(), drawing.end()}));
  return join({names.begin(), names.end()}) + " in " + join(checked) +
         (refused.empty() ? "" : "; " + join(refused, "; "));
}
}  // namespace optrush
