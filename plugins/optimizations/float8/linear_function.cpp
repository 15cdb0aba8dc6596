#include "linear_function.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "kernel_parts/largest.h"
#include "kernel_parts/rounding.h"

namespace optrush::float8 {
namespace {
constexpr auto kValues = at::kFloat8_e4m3fn;
constexpr auto kOut = at::kBFloat16;

/// (.., K) to (T, K). Adds rows of zeros up to a multiple: the gradient of a weight is a sum over tokens, and
/// an expert may have any number of them.
Tensor matrix_of(const Tensor& x, int64_t multiple) {
  const Tensor matrix = x.reshape({-1, x.size(-1)});
  const int64_t missing = (multiple - matrix.size(0) % multiple) % multiple;
  if (missing == 0) fused::carry_over(x, matrix);
  Tensor whole = missing == 0 ? matrix : at::constant_pad_nd(matrix, {0, 0, 0, missing});
  if (const Tensor largest = fused::noted_largest(x); largest.defined()) fused::note_largest(whole, largest);
  return whole;
}

/// The matrix as (.., K), with the leading sizes of `like` (.., N).
Tensor shaped_as(const Tensor& matrix, const Tensor& like) {
  auto sizes = like.sizes().vec();
  sizes.back() = matrix.size(-1);
  return matrix.narrow(0, 0, like.numel() / like.size(-1)).view(sizes);
}
}  // namespace

bool StepWeights::are(at::TensorList weights) const {
  if (of_.size() != weights.size()) return false;
  for (size_t i = 0; i < weights.size(); ++i)
    // Compared by memory: a graph may return another tensor object.
    if (!of_[i].is_alias_of(weights[i]) || versions_[i] != weights[i]._version()) return false;
  return true;
}

Scaled StepWeights::rows(at::TensorList weights, Scaling scaling) {
  if (tracing()) return quantize(weights, kValues, scaling);
  if (!are(weights)) {
    const at::NoGradGuard no_grad;
    *this = {};
    of_ = weights.vec();
    for (const Tensor& weight : weights) versions_.push_back(weight._version());
    rows_ = quantize(weights, kValues, scaling);
  }
  return rows_;
}

Scaled StepWeights::columns(at::TensorList weights, Scaling scaling) {
  const Scaled rows = this->rows(weights, scaling);
  if (tracing()) return quantize_transposed(weights, rows, scaling);
  if (!columns_.values.defined()) {
    const at::NoGradGuard no_grad;
    columns_ = quantize_transposed(weights, rows, scaling);
  }
  return columns_;
}

namespace {
/// A function of linears; its inputs are x and their matrices.
struct Linears {
  Formats formats;
  StepWeights* weights;
  std::vector<bool> trained;
  ScalesOfInput scales;

  /// Offers on the outputs that tensors computed from them are written in 8 bits.
  void offer(const Tensors& outputs) const;
  bool any_trained() const { return std::ranges::find(trained, true) != trained.end(); }
  Differentiable::Result forward(const Tensors& in) const;
  Tensors backward(const Tensors& saved, const Tensors& gradients) const;
};

void Linears::offer(const Tensors& outputs) const {
  if (!scales.after.read_once || !scales.of_gradients().past.defined()) return;
  fused::RoundingOffer offer{
      fused::Rounding{formats.gradients, scales.of_gradients(), any_trained()}, {}, scales.past->unread()};
  if (const auto product = scales.after.product)
    offer.product = fused::Rounding{kValues, scales.past->of(*product), scales.after.product_both_ways};
  fused::offer_rounding(outputs, std::move(offer));
}

Differentiable::Result Linears::forward(const Tensors& in) const {
  const Scaling scaling = formats.inputs;
  const bool fast_sums = formats.fast_sums != FastSums::none;
  const Tensor x = matrix_of(in[0], formats.multiple());
  const BothWays quantized =
      any_trained() ? quantize_both_ways(x, kValues, scaling, scales.of_x())
                    : BothWays{quantize(x, kValues, scaling, Stacking::vertical, scales.of_x()), {}};
  const at::TensorList matrices = at::TensorList(in).slice(1);
  const Scaled rows = weights->rows(matrices, formats.weights);
  Differentiable::Result result{{}, matrices.vec()};
  int64_t first = 0;
  for (const Tensor& matrix : matrices) {
    const Scaled part = rows.rows(first, matrix.size(0));
    first += matrix.size(0);
    result.outputs.push_back(shaped_as(multiply(quantized.rows, part, kOut, fast_sums), in[0]));
  }
  offer(result.outputs);
  result.saved.push_back(at::empty({0}, in[0].options()));  // gives the backward the type of x
  if (any_trained()) {
    result.saved.push_back(quantized.columns.values);
    result.saved.push_back(quantized.columns.scale);
  }
  return result;
}

Tensors Linears::backward(const Tensors& saved, const Tensors& gradients) const {
  const size_t count = trained.size();
  const Scaling scaling = formats.inputs;
  const bool fast_sums = formats.fast_sums == FastSums::all;
  const at::TensorList matrices = at::TensorList(saved).slice(0, count);
  const Tensor& like = *std::ranges::find_if(gradients, [](const Tensor& each) { return each.defined(); });
  Tensors d_out;
  for (size_t i = 0; i < count; ++i) {
    auto sizes = like.sizes().vec();
    sizes.back() = matrices[i].size(0);
    d_out.push_back(matrix_of(gradients[i].defined() ? gradients[i] : at::zeros(sizes, like.options()),
                              formats.multiple()));
  }
  const BothWays quantized =
      any_trained()
          ? quantize_both_ways(d_out, formats.gradients, scaling, scales.of_gradients())
          : BothWays{quantize(d_out, formats.gradients, scaling, Stacking::horizontal, scales.of_gradients()),
                     {}};
  Tensors made = {
      shaped_as(multiply(quantized.rows, weights->columns(matrices, formats.weights), kOut, fast_sums)
                    .to(saved[count].scalar_type()),
                like)};
  int64_t first = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t rows = matrices[i].size(0);
    made.push_back(trained[i] && gradients[i].defined()
                       ? multiply(quantized.columns.rows(first, rows),
                                  {saved[count + 1], saved[count + 2], scaling}, kOut, fast_sums)
                       : Tensor());
    first += rows;
  }
  return made;
}
}  // namespace

void offer_input(const Tensor& from, const ScalesOfInput& scales, bool trained) {
  if (!scales.of_x().past.defined()) return;
  fused::offer_rounding(from, {{}, fused::Rounding{kValues, scales.of_x(), trained}, scales.past->unread()});
}

Differentiable make_linear_function(Formats formats, StepWeights* weights, std::vector<bool> trained,
                                    ScalesOfInput scales) {
  const Linears linears{formats, weights, std::move(trained), scales};
  return {{.name = "float8_linear",
           .forward = [=](const Tensors& in) { return linears.forward(in); },
           .backward = [=](const Tensors& saved,
                           const Tensors& gradients) { return linears.backward(saved, gradients); },
           .traits = {.trace = Trace::pair, .capturable = true}}};
}
}  // namespace optrush::float8
