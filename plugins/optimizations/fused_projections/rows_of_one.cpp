#include "rows_of_one.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "optrush/data_parallel.h"
#include "optrush/shard.h"

namespace optrush::fused_projections {
namespace {
constexpr size_t kCacheLine = 64;

bool may_move(const Param& param, const Param& first) {
  if (param.codec || !param.leaf.defined() || param.compute_dtype.value_or(param.dtype) != param.dtype)
    return false;
  const Tensor& leaf = param.leaf;
  return leaf.dim() == 2 && leaf.is_contiguous() && leaf.storage().nbytes() == leaf.nbytes() &&
         leaf.nbytes() % kCacheLine == 0 && leaf.size(1) == first.leaf.size(1) &&
         leaf.scalar_type() == first.leaf.scalar_type();
}
}  // namespace

Tensor rows_of_one(const Tensors& matrices) {
  const Tensor& first = matrices.front();
  int64_t rows = 0;
  for (const Tensor& matrix : matrices) {
    const bool next = matrix.is_contiguous() && matrix.storage().is_alias_of(first.storage()) &&
                      matrix.storage_offset() == first.storage_offset() + rows * first.size(1);
    if (!next) return {};
    rows += matrix.size(0);
  }
  return at::empty({0}, first.options())
      .set_(first.storage(), first.storage_offset(), {rows, first.size(1)}, {first.size(1), 1});
}

bool lay_as_rows_of_one(const std::vector<Param*>& params, Run& run) {
  const Param& first = *params.front();
  if (!std::ranges::all_of(params, [&](const Param* param) { return may_move(*param, first); })) return false;
  const at::NoGradGuard no_grad;
  int64_t rows = 0;
  for (const Param* param : params) rows += param->leaf.size(0);
  const Tensor whole = at::empty({rows, first.leaf.size(1)}, first.leaf.options().requires_grad(false));
  int64_t row = 0;
  for (Param* param : params) {
    const Tensor place = whole.narrow(0, row, param->leaf.size(0));
    row += param->leaf.size(0);
    place.copy_(param->leaf);
    Shard* shard = nullptr;
    for (Shard& each : run.data_parallel().shards())
      if (each.data.is_alias_of(param->leaf)) shard = &each;
    param->leaf.set_data(place.detach());
    // Shares the leaf's count of changes as well.
    if (shard != nullptr) shard->data = param->leaf.detach();
  }
  return true;
}
}  // namespace optrush::fused_projections
