#include "train/model_states.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <set>

#include "train/state.h"

namespace optrush {
namespace {
/// Gradients have the type of their parameter, unless their sum is kept in a wider type.
int64_t gradient_bytes(const Shard& shard) {
  if (shard.segments.empty()) return 0;
  const Tensor& leaf = shard.segments.front().param->leaf;
  const auto own = shard.data.scalar_type();
  const auto type = leaf.defined() && leaf.grad_dtype() ? at::promoteTypes(*leaf.grad_dtype(), own) : own;
  return shard.data.numel() * static_cast<int64_t>(at::elementSize(type));
}

int64_t parameter_bytes(Session& session) {
  std::set<const void*> known;
  int64_t bytes = 0;
  const auto add = [&](const Tensor& tensor) {
    if (tensor.defined() && known.insert(tensor.storage().unsafeGetStorageImpl()).second)
      bytes += static_cast<int64_t>(tensor.storage().nbytes());
  };
  for (const Param* param : session.params().all()) {
    add(param->leaf);
    std::ranges::for_each(param->stored, add);
    bytes += param->compute_copy.bytes();
  }
  for (const Shard& shard : session.data_parallel().shards()) add(shard.data);
  return bytes;
}
}  // namespace

ModelStateBytes model_state_bytes(Session& session) {
  ModelStateBytes bytes{.parameters = parameter_bytes(session)};
  // Several micro-batches add to each gradient before it is final.
  const bool adds_up = session.spec().train.accumulation > 1;
  int64_t largest_released = 0;
  for (const Shard& shard : session.data_parallel().shards()) {
    if (shard.released.empty() || adds_up)
      bytes.gradients += gradient_bytes(shard);
    else
      largest_released = std::max(largest_released, gradient_bytes(shard));
    for (const auto& state : optimizer_state(session, shard))
      if (state.block > 0 || state.value.dim() > 0)
        bytes.optimizer_state += static_cast<int64_t>(state.value.nbytes());
  }
  bytes.gradients += largest_released;
  return bytes;
}
}  // namespace optrush
