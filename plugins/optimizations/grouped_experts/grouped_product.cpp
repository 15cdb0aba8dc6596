#include "grouped_product.h"

#include <ATen/Functions.h>

#include <utility>
#include <vector>

#include "joined_memory/joined_memory.h"
#include "optrush/forecast.h"

namespace optrush::grouped_experts {
namespace {
/// The rows of a group.
struct Stretch {
  int64_t begin = 0, length = 0;
  Tensor of(const Tensor& x) const { return x.narrow(0, begin, length); }
};

std::vector<Stretch> stretches_of(const Tensor& ends, int64_t rows) {
  const auto groups = ends.numel();
  std::vector<Stretch> stretches;
  int64_t begin = 0;
  for (int64_t i = 0; i < groups; ++i) {
    const int64_t end = is_forecast(ends) ? begin + rows / groups + (i < rows % groups ? 1 : 0)
                                          : ends.const_data_ptr<int>()[i];
    stretches.push_back({begin, end - begin});
    begin = end;
  }
  return stretches;
}

Tensor forward_one_by_one(const Tensor& x, const Tensor& ends, const Tensors& matrices) {
  const Tensor out = at::empty({x.size(0), matrices.front().size(0)}, x.options());
  const auto stretches = stretches_of(ends, x.size(0));
  for (size_t i = 0; i < matrices.size(); ++i) {
    Tensor part = stretches[i].of(out);
    at::mm_out(part, stretches[i].of(x), matrices[i].t());
  }
  return out;
}

/// {dx, dW of each group}; `x` is undefined if the matrices get no gradients.
Tensors backward_one_by_one(const Tensor& d_out, const Tensor& x, const Tensor& ends,
                            const Tensors& matrices) {
  const Tensor d_x = at::empty({d_out.size(0), matrices.front().size(1)}, d_out.options());
  const auto stretches = stretches_of(ends, d_out.size(0));
  Tensors gradients = {d_x};
  for (size_t i = 0; i < matrices.size(); ++i) {
    const Tensor given = stretches[i].of(d_out);
    Tensor part = stretches[i].of(d_x);
    at::mm_out(part, given, matrices[i]);
    gradients.push_back(x.defined() ? at::mm(given.t(), stretches[i].of(x)) : Tensor());
  }
  return gradients;
}

Tensor stacked(const Tensors& matrices) {
  const Tensor stack = stack_of(matrices);
  return stack.defined() ? stack : at::stack(matrices);
}

/// A rank may receive no rows from the routers, which the kernel does not support.
Tensor forward_grouped(const Tensor& x, const Tensor& ends, const Tensors& matrices) {
  if (x.size(0) == 0) return at::empty({0, matrices.front().size(0)}, x.options());
  return at::_grouped_mm(x, stacked(matrices).transpose(1, 2), ends);
}

Tensors backward_grouped(const Tensor& d_out, const Tensor& x, const Tensor& ends, const Tensors& matrices,
                         bool clear_idle) {
  if (d_out.size(0) == 0) {
    Tensors gradients = {at::empty({0, matrices.front().size(1)}, d_out.options())};
    for (const Tensor& matrix : matrices)
      gradients.push_back(x.defined() ? at::zeros_like(matrix) : Tensor());
    return gradients;
  }
  Tensors gradients = {at::_grouped_mm(d_out, stacked(matrices), ends)};
  if (!x.defined()) {
    gradients.resize(1 + matrices.size());
    return gradients;
  }
  const Tensor of_matrices = at::_grouped_mm(d_out.t(), x, ends);
  if (clear_idle) {
    const Tensor begins = at::constant_pad_nd(ends.narrow(0, 0, ends.numel() - 1), {1, 0}, 0);
    of_matrices.masked_fill_(ends.eq(begins).view({-1, 1, 1}), 0);
  }
  for (Tensor& gradient : of_matrices.unbind(0)) gradients.push_back(std::move(gradient));
  return gradients;
}
}  // namespace

Differentiable make_grouped_product(const GroupedProduct& of) {
  const bool grouped = of.products == Products::grouped;
  return {{.name = "grouped_product",
           .forward = [of, grouped](const Tensors& in) -> Differentiable::Result {
             const Tensor x = in[0].contiguous();
             const Tensor& ends = in[1];
             const Tensors matrices(in.begin() + 2, in.end());
             Differentiable::Result result;
             result.outputs.push_back(grouped ? forward_grouped(x, ends, matrices)
                                              : forward_one_by_one(x, ends, matrices));
             result.saved = {of.trains ? x : Tensor(), ends};
             result.saved.insert(result.saved.end(), matrices.begin(), matrices.end());
             return result;
           },
           .backward = [of, grouped](const Tensors& saved, const Tensors& given) -> Tensors {
             const Tensors matrices(saved.begin() + 2, saved.end());
             const Tensor d_out = given[0].contiguous();
             Tensors gradients = grouped
                                     ? backward_grouped(d_out, saved[0], saved[1], matrices, of.clear_idle)
                                     : backward_one_by_one(d_out, saved[0], saved[1], matrices);
             gradients.insert(gradients.begin() + 1, Tensor());
             return gradients;
           },
           .traits = {.trace = Trace::opaque, .offers = {feature::fp64}, .predictable = true},
           .cast = Cast::lower}};
}
}  // namespace optrush::grouped_experts
