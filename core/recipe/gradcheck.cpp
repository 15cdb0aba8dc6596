#include "optrush/differentiable.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "optrush/error.h"
#include "optrush/json.h"

namespace optrush {
namespace {
using Function = std::function<Tensors(const Tensors&)>;

/// The differentiable outputs, each weighted by a random direction and summed to one number.
class Weighted {
 public:
  Weighted(const Function& function, const Tensors& inputs) : function_(function), inputs_(inputs) {
    for (const Tensor& out : function_(inputs_)) {
      const bool derived = out.defined() && out.requires_grad();
      directions_.push_back(derived ? at::randn(out.sizes(), out.options()) : Tensor());
    }
  }
  Tensor operator()() const {
    const Tensors outputs = function_(inputs_);
    Tensor sum;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!directions_.at(i).defined()) continue;
      const Tensor part = (outputs[i] * directions_[i]).sum();
      sum = sum.defined() ? sum + part : part;
    }
    if (!sum.defined()) throw Error(ErrorCode::unsupported, "no output depends on the inputs");
    return sum;
  }

 private:
  const Function& function_;
  const Tensors& inputs_;
  Tensors directions_;
};

/// Element `index` of a tensor as a view, for any strides.
Tensor element(const Tensor& tensor, int64_t index) {
  int64_t offset = tensor.storage_offset();
  for (int64_t dim = tensor.dim() - 1; dim >= 0; --dim) {
    offset += index % tensor.size(dim) * tensor.stride(dim);
    index /= tensor.size(dim);
  }
  return tensor.as_strided({}, {}, offset);
}

/// All indices, or `most` of them with odd distances, so that every lane of a vector is covered.
std::vector<int64_t> chosen(int64_t count, int64_t most) {
  const int64_t distance = most > 0 && count > most ? ((count + most - 1) / most) | 1 : 1;
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; i += distance) indices.push_back(i);
  return indices;
}

std::string compare_gradient(const Weighted& weighted, const Tensor& input, const Tensor& gradient,
                             const GradientCheck& check) {
  double worst = 0, largest = 0, there = 0, expected = 0;
  for (const int64_t index : chosen(input.numel(), check.elements)) {
    const Tensor place = element(input, index);
    const double kept = place.item<double>();
    place.fill_(kept + check.step);
    const double above = weighted().item<double>();
    place.fill_(kept - check.step);
    const double below = weighted().item<double>();
    place.fill_(kept);
    const double numeric = (above - below) / (2 * check.step);
    const double given = gradient.defined() ? element(gradient, index).item<double>() : 0;
    largest = std::max(largest, std::abs(numeric));
    // Written so that a NaN counts as the worst difference.
    if (!(std::abs(numeric - given) <= worst)) {
      worst = std::abs(numeric - given);
      there = given;
      expected = numeric;
      if (std::isnan(worst)) break;
    }
  }
  if (worst <= check.tolerance * std::max(1.0, largest)) return {};
  return "the backward gives " + Json(there).dump() + ", but finite differences of the forward give " +
         Json(expected).dump() + (gradient.defined() ? "" : " (the backward returned no gradient)");
}
}  // namespace

std::string wrong_gradient(const Function& function, const Tensors& inputs, const GradientCheck& check) {
  const auto derived = [](const Tensor& input) { return input.defined() && input.requires_grad(); };
  for (const Tensor& input : inputs) {
    if (derived(input) && input.scalar_type() != at::kDouble)
      throw Error(ErrorCode::unsupported, "finite differences are not precise enough in types below fp64",
                  "give inputs in fp64");
    if (input.defined() && input.is_leaf()) input.mutable_grad().reset();
  }
  const Weighted weighted(function, inputs);
  weighted().backward();
  Tensors gradients;
  for (const Tensor& input : inputs) {
    gradients.push_back(derived(input) ? input.grad() : Tensor());
    if (derived(input)) input.mutable_grad().reset();
  }
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!derived(inputs[i])) continue;
    if (auto wrong = compare_gradient(weighted, inputs[i], gradients[i], check); !wrong.empty())
      return "input " + std::to_string(i) + ": " + wrong;
  }
  return {};
}
}  // namespace optrush
