#include "linear_function.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

namespace optrush::float8 {
namespace {
constexpr auto kValues = at::kFloat8_e4m3fn;
constexpr auto kOut = at::kBFloat16;

Tensor matrix_of(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

/// (.., K) of the rows (.., N) that `like` has.
Tensor shaped_as(const Tensor& matrix, const Tensor& like) {
  auto sizes = like.sizes().vec();
  sizes.back() = matrix.size(-1);
  return matrix.view(sizes);
}
}  // namespace

Scaled StepWeight::rows(const Tensor& weight, Scaling scaling) {
  if (tracing()) return quantize(weight, kValues, scaling);
  // By its memory: a graph may hand back another tensor object.
  if (!of_.defined() || !of_.is_alias_of(weight) || version_ != weight._version()) {
    const at::NoGradGuard no_grad;
    *this = {};
    of_ = weight;
    version_ = weight._version();
    rows_ = quantize(weight, kValues, scaling);
  }
  return rows_;
}

Scaled StepWeight::columns(const Tensor& weight, Scaling scaling) {
  const Scaled rows = this->rows(weight, scaling);
  if (tracing()) return quantize_transposed(weight, rows, scaling);
  if (!columns_.values.defined()) {
    const at::NoGradGuard no_grad;
    columns_ = quantize_transposed(weight, rows, scaling);
  }
  return columns_;
}

Differentiable make_linear_function(Scaling scaling, at::ScalarType gradient_type, bool weight_trained,
                                    StepWeight& weight) {
  return {.name = "float8_linear",
          .forward = [=, &weight](const Tensors& in) -> Differentiable::Result {
            const Tensor x = matrix_of(in[0]);
            const Scaled rows = quantize(x, kValues, scaling);
            const Tensor out = multiply(rows, weight.rows(in[1], scaling), kOut, /*fast_sums=*/true);
            Differentiable::Result result{{shaped_as(out, in[0])}, {in[1]}};
            if (weight_trained) {
              const Scaled columns = quantize_transposed(x, rows, scaling);
              result.saved.push_back(columns.values);
              result.saved.push_back(columns.scale);
            }
            return result;
          },
          .backward = [=, &weight](const Tensors& saved, const Tensors& gradients) -> Tensors {
            const Tensor d_out = matrix_of(gradients[0]);
            const Scaled rows = quantize(d_out, gradient_type, scaling);
            const Tensor d_x = multiply(rows, weight.columns(saved[0], scaling), kOut, false);
            if (!weight_trained) return {shaped_as(d_x, gradients[0]), Tensor()};
            const Scaled columns = quantize_transposed(d_out, rows, scaling);
            return {shaped_as(d_x, gradients[0]), multiply(columns, {saved[1], saved[2]}, kOut, false)};
          },
          .traits = {.trace = Trace::pair, .capturable = true}};
}
}  // namespace optrush::float8
