#include "mlp_function.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>

#include "optrush/forecast.h"

namespace optrush {
namespace {
/// Default number of rows at a time. Each chunk adds to three weight gradients, so few rows cost more than
/// they save: on a CPU 1,024 were as fast as all at once; a GPU needs more to fill its units.
constexpr int64_t kRowsOnCpu = 1024, kRowsOnGpu = 4096;

int64_t rows_at_once(int64_t chunk, const Tensor& x) {
  return chunk > 0 ? chunk : form_of(x) == at::kCUDA ? kRowsOnGpu : kRowsOnCpu;
}

struct Weights {
  Tensor gate, up, down;
};

struct Inner {
  Tensor gate, up, hidden;
};

Inner inner_of(const Tensor& x, const Weights& w) {
  Tensor gate = at::mm(x, w.gate.t()), up = at::mm(x, w.up.t());
  Tensor hidden = at::silu(gate).mul_(up);
  return {std::move(gate), std::move(up), std::move(hidden)};
}

/// The gradient of up in hidden = SiLU(gate) up.
Tensor d_up_of(const Tensor& gate, const Tensor& d_hidden) { return at::silu(gate).mul_(d_hidden); }

/// sum += a b; the first product is the sum.
void accumulate(Tensor& sum, const Tensor& a, const Tensor& b) {
  if (sum.defined()) {
    sum.addmm_(a, b);
  } else {
    sum = at::mm(a, b);
  }
}

/// Gradients of the matrices, summed over chunks; undefined for frozen matrices.
struct WeightGradients {
  Tensor gate, up, down;
};

/// Returns the gradient of x for some rows, and adds the gradients of the matrices to `sums`.
Tensor backward_of(const Tensor& x, const Weights& w, const Inner& inner, const Tensor& d_out,
                   const TrainedMatrices& trained, WeightGradients& sums) {
  if (trained.down) accumulate(sums.down, d_out.t(), inner.hidden);
  Tensor d_hidden = at::mm(d_out, w.down);
  const Tensor d_up = d_up_of(inner.gate, d_hidden);
  const Tensor d_gate = at::silu_backward(d_hidden.mul_(inner.up), inner.gate);
  d_hidden.reset();
  if (trained.gate) accumulate(sums.gate, d_gate.t(), x);
  if (trained.up) accumulate(sums.up, d_up.t(), x);
  return at::mm(d_gate, w.gate).addmm_(d_up, w.up);
}

Tensor joined(const Tensors& rows, at::IntArrayRef sizes) {
  return (rows.size() == 1 ? rows.front() : at::cat(rows)).view(sizes);
}

Tensor matrix_of(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

Differentiable::Result forward_keeping_all(const Tensors& in) {
  const Inner inner = inner_of(matrix_of(in[0]), {in[1], in[2], in[3]});
  return {{at::mm(inner.hidden, in[3].t()).view(in[0].sizes())},
          {in[0], in[1], in[2], in[3], inner.gate, inner.up, inner.hidden}};
}

Differentiable::Result forward_keeping_input(const Tensors& in, int64_t chunk) {
  Tensors out;
  for (const Tensor& rows : matrix_of(in[0]).split(rows_at_once(chunk, in[0])))
    out.push_back(at::mm(inner_of(rows, {in[1], in[2], in[3]}).hidden, in[3].t()));
  return {{joined(out, in[0].sizes())}, in};
}

Tensors backward(const Tensors& saved, const Tensor& gradient, int64_t chunk,
                 const TrainedMatrices& trained) {
  const Tensor x = matrix_of(saved[0]), d_out = matrix_of(gradient);
  const Weights w{saved[1], saved[2], saved[3]};
  WeightGradients sums;
  Tensors d_x;
  if (saved.size() > 4) {
    d_x.push_back(backward_of(x, w, {saved[4], saved[5], saved[6]}, d_out, trained, sums));
  } else {
    const int64_t rows = rows_at_once(chunk, x);
    // An expert without tokens has one chunk without rows.
    for (int64_t begin = 0; begin == 0 || begin < x.size(0); begin += rows) {
      const int64_t count = std::min(rows, x.size(0) - begin);
      const Tensor some = x.narrow(0, begin, count);
      d_x.push_back(backward_of(some, w, inner_of(some, w), d_out.narrow(0, begin, count), trained, sums));
    }
  }
  return {joined(d_x, saved[0].sizes()), sums.gate, sums.up, sums.down};
}
}  // namespace

Differentiable make_mlp_function(Keep keep, int64_t chunk, TrainedMatrices trained) {
  return {
      {.name = "swiglu_mlp",
       .forward =
           [=](const Tensors& in) {
             return keep == Keep::everything ? forward_keeping_all(in) : forward_keeping_input(in, chunk);
           },
       .backward = [=](const Tensors& saved,
                       const Tensors& gradients) { return backward(saved, gradients[0], chunk, trained); },
       .traits = {.trace = Trace::pair, .capturable = true, .offers = {feature::fp64}},
       .cast = Cast::lower}};
}

Differentiable make_swiglu_function() {
  return {{.name = "swiglu",
           .forward = [](const Tensors& in) -> Differentiable::Result {
             return {{at::silu(in[0]).mul_(in[1])}, {in[0], in[1]}};
           },
           .backward = [](const Tensors& saved, const Tensors& gradients) -> Tensors {
             const Tensor &gate = saved[0], &up = saved[1], &d_hidden = gradients[0];
             return {at::silu_backward(d_hidden * up, gate), d_up_of(gate, d_hidden)};
           },
           .traits = {.trace = Trace::pair, .capturable = true, .offers = {feature::fp64}}}};
}
}  // namespace optrush
