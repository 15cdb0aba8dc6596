#include "joined_memory/joined_memory.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "optrush/advanced/data_parallel.h"
#include "optrush/run.h"
#include "optrush/shard.h"

namespace optrush {
namespace {
constexpr size_t kCacheLine = 64;

bool may_move(const Param& param, at::ScalarType type) {
  if (param.codec || !param.leaf.defined() || param.compute_dtype.value_or(param.dtype) != param.dtype)
    return false;
  const Tensor& leaf = param.leaf;
  return leaf.dim() == 2 && leaf.is_contiguous() && leaf.storage().nbytes() == leaf.nbytes() &&
         leaf.nbytes() % kCacheLine == 0 && leaf.scalar_type() == type;
}
}  // namespace

bool lay_together(const std::vector<Param*>& matrices, Run& run) {
  const Tensor& first = matrices.front()->leaf;
  if (!first.defined()) return false;
  const auto type = first.scalar_type();
  if (!std::ranges::all_of(matrices, [&](const Param* param) { return may_move(*param, type); }))
    return false;
  const at::NoGradGuard no_grad;
  int64_t numel = 0;
  for (const Param* param : matrices) numel += param->leaf.numel();
  const Tensor whole = at::empty({numel}, first.options().requires_grad(false));
  int64_t at = 0;
  for (Param* param : matrices) {
    const Tensor place = whole.narrow(0, at, param->leaf.numel()).view(param->leaf.sizes());
    at += param->leaf.numel();
    place.copy_(param->leaf);
    Shard* shard = nullptr;
    for (Shard& each : run.data_parallel().shards())
      if (each.data.is_alias_of(param->leaf)) shard = &each;
    param->leaf.set_data(place.detach());
    // Also shares the leaf's version counter.
    if (shard != nullptr) shard->data = param->leaf.detach();
  }
  return true;
}

Tensor stack_of(const Tensors& matrices) {
  const Tensor& first = matrices.front();
  const auto count = static_cast<int64_t>(matrices.size());
  const int64_t distance = count == 1 ? first.numel() : matrices[1].storage_offset() - first.storage_offset();
  if (distance < first.numel()) return {};
  for (int64_t i = 0; i < count; ++i) {
    const Tensor& matrix = matrices[static_cast<size_t>(i)];
    const bool there = matrix.is_contiguous() && matrix.sizes() == first.sizes() &&
                       matrix.storage().is_alias_of(first.storage()) &&
                       matrix.storage_offset() == first.storage_offset() + i * distance;
    if (!there) return {};
  }
  return at::empty({0}, first.options())
      .set_(first.storage(), first.storage_offset(), {count, first.size(0), first.size(1)},
            {distance, first.size(1), 1});
}
}  // namespace optrush
