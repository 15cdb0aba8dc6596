#pragma once
#include "train/session.h"

namespace optrush {
/// Sets token_count and sequence_count, the totals over all ranks, in each micro-batch of a step. Hosts count
/// and add them up, so nothing waits for a device.
void count_step(const Session&, std::span<Batch>);
/// The mean loss of the global batch from this rank's part; undefined on a rank that does not run the head.
Tensor global_loss(const Session&, const Tensor& part);
}  // namespace optrush
