#include "projections.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "joined_memory/joined_gradients.h"
#include "rows_of_one.h"

namespace optrush::fused_projections {
namespace {
Tensor matrix_of(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

Tensors matrices_of(const Tensors& gradients) {
  Tensors matrices;
  for (const Tensor& gradient : gradients)
    matrices.push_back(gradient.defined() ? matrix_of(gradient) : Tensor());
  return matrices;
}

/// The sum of products d_i W_i, in the tensor of the first one.
Tensor sum_of_products(const Tensors& d_out, const Tensors& matrices) {
  Tensor sum;
  for (size_t i = 0; i < d_out.size(); ++i) {
    if (!d_out[i].defined()) continue;
    if (sum.defined()) {
      sum.addmm_(d_out[i], matrices[i]);
    } else {
      sum = at::mm(d_out[i], matrices[i]);
    }
  }
  return sum;
}

Tensors separate_products(const Tensors& d_out, const Tensor& x, const std::vector<bool>& wanted) {
  Tensors products(d_out.size());
  for (size_t i = 0; i < d_out.size(); ++i)
    if (wanted[i] && d_out[i].defined()) products[i] = at::mm(d_out[i].t(), x);
  return products;
}

/// Row ranges of one product.
Tensors joined_product(const Tensor& joined, const Tensor& x, const Tensors& matrices) {
  const Tensor product = at::mm(joined.t(), x);
  Tensors parts;
  int64_t row = 0;
  for (const Tensor& matrix : matrices) {
    parts.push_back(product.narrow(0, row, matrix.size(0)));
    row += matrix.size(0);
  }
  return parts;
}

/// All gradients as one matrix, if they are already there or if a copy pays; otherwise undefined. Without
/// `useful` no copy is made.
Tensor joined_matrix(const Tensor& places, const Tensors& gradients, const Tensors& matrices, bool useful) {
  if (!std::ranges::all_of(gradients, [](const Tensor& d) { return d.defined(); })) return {};
  if (const Tensor there = joined_gradients(places, gradients); there.defined()) return matrix_of(there);
  int64_t rows = 0;
  for (const Tensor& matrix : matrices) rows += matrix.size(0);
  const bool pays = useful && joining_pays(rows, matrices[0].size(1), std::ssize(matrices));
  return pays ? at::cat(matrices_of(gradients), 1) : Tensor();
}

/// `x` is undefined if no gradient of a matrix is requested.
Tensors backward(const Tensor& x, const Tensors& matrices, const Tensor& places, const Tensors& gradients,
                 const Wanted& wanted) {
  const bool all_trained = std::ranges::all_of(wanted.matrices, std::identity());
  const Tensor whole = wanted.x ? rows_of_one(matrices) : Tensor();
  const Tensor joined = joined_matrix(places, gradients, matrices, whole.defined() || all_trained);
  const Tensors d_out = matrices_of(gradients);

  Tensor d_x;
  if (wanted.x)
    d_x = joined.defined() && whole.defined() ? at::mm(joined, whole) : sum_of_products(d_out, matrices);
  Tensors d_matrices(matrices.size());
  if (x.defined())
    d_matrices = joined.defined() && all_trained ? joined_product(joined, matrix_of(x), matrices)
                                                 : separate_products(d_out, matrix_of(x), wanted.matrices);
  d_matrices.insert(d_matrices.begin(), d_x);
  return d_matrices;
}
}  // namespace

bool joining_pays(int64_t rows, int64_t columns, int64_t matrices) {
  return rows <= (matrices - 1) * columns;
}

Differentiable make_projections(Wanted wanted) {
  const bool any_trained = std::ranges::count(wanted.matrices, true) > 0;
  return {{.name = "fused_projections",
           .forward = [any_trained](const Tensors& in) -> Differentiable::Result {
             Differentiable::Result result{{}, in};
             for (size_t i = 1; i < in.size(); ++i) result.outputs.push_back(at::linear(in[0], in[i]));
             if (!any_trained) result.saved[0] = Tensor();
             result.saved.push_back(offer_places(result.outputs));
             return result;
           },
           .backward = [wanted](const Tensors& saved, const Tensors& gradients) -> Tensors {
             const Tensors matrices(saved.begin() + 1, saved.end() - 1);
             Tensors made = backward(saved[0], matrices, saved.back(), gradients, wanted);
             if (!made[0].defined()) return made;
             auto sizes =
                 std::ranges::find_if(gradients, [](const Tensor& g) { return g.defined(); })->sizes().vec();
             sizes.back() = matrices[0].size(1);
             made[0] = made[0].view(sizes);
             return made;
           },
           .traits = {.trace = Trace::opaque, .capturable = true, .offers = {feature::fp64}},
           .cast = Cast::lower}};
}
}  // namespace optrush::fused_projections
