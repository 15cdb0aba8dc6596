#pragma once
#include <cstdint>
#include <vector>

#include "optrush/batch.h"

namespace optrush::context_parallel {
/// A run of neighbouring positions.
struct Stretch {
  int64_t begin = 0, length = 0;
};

/// The positions of a sequence that one of `ranks` has. Zigzag: stretch r and stretch 2 ranks - 1 - r of
/// 2 ranks equal ones, so that under a causal mask every rank has the same number of pairs of a query and a
/// key (arXiv:2407.21783, section 3.3.2). Otherwise one stretch.
std::vector<Stretch> slices_of(int64_t length, int64_t ranks, int64_t rank, bool zigzag);

/// (B, S, ..) to (B, S / ranks, ..).
Tensor taken(const Tensor& whole, const std::vector<Stretch>& slices);

/// This rank's positions of a micro-batch. The segments still describe the whole rows.
Batch slice_of(Batch batch, int64_t ranks, int64_t rank, bool zigzag);
}  // namespace optrush::context_parallel
