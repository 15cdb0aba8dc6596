#pragma once
#include "train/session.h"

namespace optrush {
/// Sets the totals over all ranks in each micro-batch of a step: token_count and sequence_count. Counted on
/// the host and, over several ranks, by the hosts among themselves: no device is waited for.
void count_step(const Session&, std::span<Batch>);
/// The mean of the global batch from this rank's part of it; undefined on a rank that does not run the head.
Tensor global_loss(const Session&, const Tensor& part);
}  // namespace optrush
