#include "linear_function.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

namespace optrush::float8 {
namespace {
constexpr auto kValues = at::kFloat8_e4m3fn;
constexpr auto kOut = at::kBFloat16;

/// A gradient of a weight sums over tokens, and GPUs sum fp8 over multiples of 16.
constexpr int64_t kTokens = 16;

/// (T, K) of (.., K), with rows of zeros up to a multiple of kTokens: an expert has any number of tokens.
Tensor matrix_of(const Tensor& x) {
  const Tensor matrix = x.reshape({-1, x.size(-1)});
  const int64_t missing = (kTokens - matrix.size(0) % kTokens) % kTokens;
  return missing == 0 ? matrix : at::constant_pad_nd(matrix, {0, 0, 0, missing});
}

/// (.., K) of the rows (.., N) that `like` has.
Tensor shaped_as(const Tensor& matrix, const Tensor& like) {
  auto sizes = like.sizes().vec();
  sizes.back() = matrix.size(-1);
  return matrix.narrow(0, 0, like.numel() / like.size(-1)).view(sizes);
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

namespace {
/// sum + part; a tracer may see no tensor change.
void add(Tensor& sum, Tensor part) {
  if (!sum.defined())
    sum = std::move(part);
  else
    tracing() ? sum = sum + part : sum.add_(part);
}

Differentiable::Result forward(const Tensors& in, const std::vector<Matrix>& matrices, Scaling scaling) {
  const bool any_trained = std::ranges::any_of(matrices, &Matrix::trained);
  const Tensor x = matrix_of(in[0]);
  const BothWays quantized =
      any_trained ? quantize_both_ways(x, kValues, scaling) : BothWays{quantize(x, kValues, scaling), {}};
  Differentiable::Result result{{}, {in.begin() + 1, in.end()}};
  for (size_t i = 0; i < matrices.size(); ++i)
    result.outputs.push_back(shaped_as(
        multiply(quantized.rows, matrices[i].weight->rows(in[i + 1], scaling), kOut, /*fast_sums=*/true),
        in[0]));
  result.saved.push_back(at::empty({0}, in[0].options()));  // tells the backward the type of x
  if (any_trained) {
    result.saved.push_back(quantized.columns.values);
    result.saved.push_back(quantized.columns.scale);
  }
  return result;
}

Tensors backward(const Tensors& saved, const Tensors& gradients, const std::vector<Matrix>& matrices,
                 Scaling scaling, at::ScalarType gradient_type) {
  const size_t count = matrices.size();
  Tensor d_x;
  Tensors made(count + 1);
  for (size_t i = count; i-- > 0;) {
    if (!gradients[i].defined()) continue;
    const Tensor d_out = matrix_of(gradients[i]);
    const BothWays quantized = matrices[i].trained ? quantize_both_ways(d_out, gradient_type, scaling)
                                                   : BothWays{quantize(d_out, gradient_type, scaling), {}};
    const Tensor part = multiply(quantized.rows, matrices[i].weight->columns(saved[i], scaling), kOut, false);
    add(d_x, part.to(saved[count].scalar_type()));
    made[0] = shaped_as(d_x, gradients[i]);
    if (matrices[i].trained)
      made[i + 1] = multiply(quantized.columns, {saved[count + 1], saved[count + 2]}, kOut, false);
  }
  return made;
}
}  // namespace

Differentiable make_linear_function(Scaling scaling, at::ScalarType gradient_type,
                                    std::vector<Matrix> matrices) {
  return {.name = "float8_linear",
          .forward = [=](const Tensors& in) { return forward(in, matrices, scaling); },
          .backward =
              [=](const Tensors& saved, const Tensors& gradients) {
                return backward(saved, gradients, matrices, scaling, gradient_type);
              },
          .traits = {.trace = Trace::pair, .capturable = true}};
}
}  // namespace optrush::float8
