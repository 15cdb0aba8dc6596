#pragma once
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "optrush/tensor.h"
#include "optrush/torch_versions/at_least.h"

namespace optrush {
/// Collectives of one tensor per rank: `out` of a gather and `in` of a scatter have all parts in order.
inline c10::intrusive_ptr<c10d::Work> gather_parts(c10d::ProcessGroup& group, Tensor& out, Tensor& in) {
#if OPTRUSH_TORCH_AT_LEAST(2, 13)
  return group.all_gather_single(out, in);
#else
  return group._allgather_base(out, in);
#endif
}

inline c10::intrusive_ptr<c10d::Work> reduce_parts(c10d::ProcessGroup& group, Tensor& out, Tensor& in) {
#if OPTRUSH_TORCH_AT_LEAST(2, 13)
  return group.reduce_scatter_single(out, in);
#else
  return group._reduce_scatter_base(out, in);
#endif
}

/// Each rank's part of `in` goes to it. `from`, `to`: lengths along dimension 0; empty: equal parts.
inline c10::intrusive_ptr<c10d::Work> exchange_parts(c10d::ProcessGroup& group, Tensor& out, Tensor& in,
                                                     std::vector<int64_t> from = {},
                                                     std::vector<int64_t> to = {}) {
#if OPTRUSH_TORCH_AT_LEAST(2, 13)
  return group.all_to_all_single(out, in, from, to);
#else
  return group.alltoall_base(out, in, from, to);
#endif
}
}  // namespace optrush
