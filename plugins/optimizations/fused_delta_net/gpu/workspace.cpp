#include "gpu/workspace.h"

#include <ATen/Functions.h>

#include "kernel_parts/tensors.h"

namespace optrush::fused {
gpu::Workspace gpu::Workspace::of_forward(const Tensor& q, const Tensor& v) {
  const int64_t batch = q.size(0), key_heads = q.size(1), positions = q.size(2), keys = q.size(3);
  const int64_t heads = v.size(1), values = v.size(3);
  const int64_t chunk = delta_rule_chunk(type_of(v, "delta_rule")), chunks = (positions + chunk - 1) / chunk;
  const auto options = v.options().dtype(wide_type(v)).requires_grad(false);
  Workspace workspace;
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{batch, key_heads, positions},
                                         {batch, key_heads, positions},
                                         {batch, heads, chunks, chunk, chunk},
                                         {batch, heads, chunks, chunk, chunk},
                                         {batch, heads, chunks, keys, values},
                                         {batch, heads, positions, values}})
    workspace.pieces_.push_back(at::empty(sizes, options));
  return workspace;
}

gpu::Workspace gpu::Workspace::of_backward(const Tensor& q, const Tensor& v) {
  Workspace workspace = of_forward(q, v);
  const int64_t batch = q.size(0), key_heads = q.size(1), positions = q.size(2), keys = q.size(3);
  const int64_t heads = v.size(1), values = v.size(3), slabs = (keys + kSlab - 1) / kSlab;
  const int64_t chunk = delta_rule_chunk(type_of(v, "delta_rule")), chunks = (positions + chunk - 1) / chunk;
  const auto options = workspace.pieces_.front().options();
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{batch, heads, chunks, keys, values},
                                         {batch, heads, positions, values},
                                         {batch, key_heads, chunks, chunk, chunk},
                                         {batch, key_heads, chunks, chunk, chunk},
                                         {batch, key_heads, positions, keys},
                                         {batch, key_heads, positions, keys},
                                         {batch, heads, slabs, 3, positions},
                                         {batch, heads, slabs, chunks},
                                         {batch, heads, positions}})
    workspace.pieces_.push_back(at::empty(sizes, options));
  workspace.pieces_.push_back(at::empty({batch, heads, positions}, options.dtype(at::kDouble)));
  return workspace;
}

double gpu::Workspace::bytes() const {
  double bytes = 0;
  for (const Tensor& piece : pieces_) bytes += static_cast<double>(piece.nbytes());
  return bytes;
}

DeltaRuleWorkspace gpu::Workspace::addresses() const {
  const auto at = [&](size_t i) { return i < pieces_.size() ? pieces_[i].data_ptr() : nullptr; };
  return {.q_factors = at(0),
          .k_factors = at(1),
          .inverses = at(2),
          .scores = at(3),
          .states = at(4),
          .solutions = at(5),
          .dstates = at(6),
          .dsides = at(7),
          .dqk = at(8),
          .dkk = at(9),
          .dq = at(10),
          .dk = at(11),
          .dots = at(12),
          .dots_of_states = at(13),
          .dbeta = at(14),
          .dlog = at(15)};
}
}  // namespace optrush::fused
