#include "plugin_check/run_case.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/text.h"
#include "optrush/differentiable.h"
#include "plugin_check/small_step.h"

namespace optrush {
namespace {
/// Moves parameters away from symmetric points: a matrix that starts at zero hides the gradient of its
/// partner.
void move_away_from_the_start(Session& session) {
  const at::NoGradGuard no_grad;
  at::manual_seed(2);
  for (Shard& shard : session.data_parallel().shards())
    for (const Segment& segment : shard.segments) {
      const Tensor value = Shard::part(shard.data, segment);
      value.add_(at::randn_like(value), 0.02);
    }
}

[[noreturn]] void fail(const std::string& what, double given, double expected) {
  throw Error(ErrorCode::wrong_result,
              "the gradient of " + what + " is wrong: in one direction the backward gives " +
                  Json(given).dump() + ", but finite differences of the forward give " +
                  Json(expected).dump());
}

/// Differences compare the losses of a function. A plugin may make each call another function.
void refuse_changing_losses(const CheckCase& c, SmallStep& step) {
  if (c.without_values || step.is_a_function()) return;
  throw Skip(ErrorCode::unsupported,
             "equal steps have different losses, also without the event step_end: a plugin adapts in its "
             "forward, or "
             "draws random numbers from a generator that the host does not seed. Differences of the loss do "
             "not show "
             "its gradient",
             "let it adapt in step_end, or test its gradient in its tests");
}

std::string without_end_text(const SmallStep& step) {
  return step.without_end() ? "; without the event step_end, in which a plugin adapts" : "";
}

/// Compares each parameter along a random direction in fp64. A parameter in fewer bits takes a longer step,
/// and its rounded position counts.
std::string check_parameters(const CheckCase& c, Session& run) {
  constexpr double kFloor = 1e-8;
  move_away_from_the_start(run);
  SmallStep step(run);
  refuse_changing_losses(c, step);
  std::set<std::string> narrow;
  const auto gradients = step.gradients();
  size_t checked = 0;
  for (const auto& [param, value, gradient] : gradients) {
    Tensor kept, direction;
    {
      const at::NoGradGuard no_grad;
      kept = value.clone();
      direction = at::randn_like(kept);
    }
    const auto type = value.scalar_type();
    const bool wide = type == at::kDouble;
    const double length = wide ? 1e-6 : type == at::kFloat ? 3e-4 : 3e-2;
    const double tolerance = wide ? 1e-4 : type == at::kFloat ? 1e-2 : 1e-1;
    Tensor moved = at::zeros_like(kept, at::kDouble);
    const auto loss_at = [&, &value = value](double distance) {
      {
        const at::NoGradGuard no_grad;
        value.copy_(kept + distance * direction);
        if (distance != 0)
          moved = moved + (value.to(at::kDouble) - kept.to(at::kDouble)) * (distance > 0 ? 1 : -1);
      }
      return step.loss();
    };
    const double expected = (loss_at(length) - loss_at(-length)) / (2 * length);
    loss_at(0);
    const at::NoGradGuard no_grad;
    const double given =
        gradient.defined() ? (gradient.to(at::kDouble) * moved).sum().item<double>() / (2 * length) : 0;
    const double size = gradient.defined() ? gradient.norm().item<double>() : 0;
    if (!c.without_values &&
        !(std::abs(given - expected) <= tolerance * std::max(size, std::abs(expected)) + kFloor))
      fail(param->name + (wide ? "" : ", which the plugin keeps in fewer bits,"), given, expected);
    if (!wide) narrow.insert(c10::toString(type));
    ++checked;
  }
  std::string text = std::to_string(checked) + " parameters in fp64" + without_end_text(step);
  if (!narrow.empty()) text += "; some are kept in " + join({narrow.begin(), narrow.end()});
  return text;
}

/// Compares along the whole gradient at once, so that rounding is small compared with the change of the loss.
void check_along_the_gradient(const CheckCase& c, Session& run) {
  constexpr double kChange = 2e-2, kFarthest = 5e-2, kTolerance = 0.1;
  move_away_from_the_start(run);
  SmallStep step(run);
  refuse_changing_losses(c, step);
  const double loss = step.loss();
  const auto gradients = step.gradients();
  const at::NoGradGuard no_grad;
  double squares = 0, parameters = 0;
  Tensors kept;
  for (const auto& [param, value, gradient] : gradients) {
    kept.push_back(value.clone());
    if (!gradient.defined()) continue;
    squares += gradient.to(at::kDouble).square().sum().item<double>();
    parameters += kept.back().to(at::kDouble).square().sum().item<double>();
  }
  // The step that changes the loss or the parameters by a few percent.
  const double distance =
      std::min(kChange * loss / squares, kFarthest * std::sqrt(parameters) / std::sqrt(squares));
  // In lower precision a parameter is rounded, so its actual position counts.
  double given = 0;
  const auto loss_at = [&](double times) {
    for (size_t i = 0; i < gradients.size(); ++i) {
      const auto& [param, value, gradient] = gradients[i];
      if (!gradient.defined()) continue;
      value.copy_(kept[i] + times * gradient.to(kept[i].scalar_type()));
      const Tensor moved = value.to(at::kDouble) - kept[i].to(at::kDouble);
      given += (times > 0 ? 1 : -1) * (moved * gradient).sum().item<double>();
    }
    const at::AutoGradMode as_in_training(true);
    return step.loss();
  };
  const double above = loss_at(distance), below = loss_at(-distance);
  if (!c.without_values && !(std::abs(given - (above - below)) <= kTolerance * std::abs(given)))
    fail("the whole model", given, above - below);
}

std::string names_of(const std::vector<ObservedCall>& calls) {
  std::set<std::string> names;
  for (const ObservedCall& each : calls) names.insert(each.op->name);
  return join({names.begin(), names.end()});
}

/// A wrong Differentiable found in fp64, which it supports, so rounding does not explain it.
struct WrongBackward : Error {
  explicit WrongBackward(std::string what) : Error(ErrorCode::wrong_result, std::move(what)) {}
};

void check_pair(const CheckCase& c, const ObservedCall& observed) {
  constexpr int64_t kElements = 100;
  const auto function = [&](const Tensors& inputs) {
    at::manual_seed(3);  // random numbers must be the same in each call
    return call(observed.op, inputs);
  };
  const bool derived =
      std::ranges::any_of(observed.inputs, [](const Tensor& t) { return t.defined() && t.requires_grad(); });
  if (!derived) return;
  const std::string wrong = wrong_gradient(function, observed.inputs, {.elements = kElements});
  if (wrong.empty() || c.without_values) return;
  const std::string text = "operator '" + observed.op->name + "' has a wrong backward: " + wrong;
  // A Differentiable that does not offer fp64 may round internally.
  if (observed.op->traits.has(feature::fp64)) throw WrongBackward(text);
  throw Error(ErrorCode::wrong_result, text);
}

std::string in_double(const CheckCase& c, const CheckContext& context) {
  RunSpec spec = c.spec;
  spec.train.dtype = "fp64";
  const auto run = open_run(spec, context);
  const auto calls = observed_calls(*run);
  // Differentiables first, because their errors name the culprit, while the whole model only shows a
  // parameter below it.
  for (const ObservedCall& each : calls) check_pair(c, each);
  return check_parameters(c, *run) + (calls.empty() ? "" : "; the operators " + names_of(calls));
}
}  // namespace

std::string check_gradients(const CheckCase& c, const CheckContext& context) {
  std::string why = "its effect is 'precision'";
  if (keeps_its_bits(c, context.catalogue)) {
    RunSpec wide = c.spec;
    wide.train.dtype = "fp64";
    try {
      SmallStep(*open_run(wide, context)).loss();
      why.clear();
    } catch (const Skip&) {
      throw;
    } catch (const Error& e) {
      why = "it does not run in fp64: " + e.message();
    }
  }
  if (why.empty()) return in_double(c, context);
  // A plugin that only stores in fewer bits computes a fixed function, whose gradient is exact in fp64.
  try {
    return in_double(c, context);
  } catch (const Skip&) {
    throw;
  } catch (const WrongBackward&) {
    throw;
  } catch (const Error&) {
    const auto run = open_case(c, c.spec, context);
    check_along_the_gradient(c, *run);
  }
  return "the whole model, by finite differences with large steps, because " + why;
}
}  // namespace optrush
