#pragma once
#include "train/session.h"

namespace optrush {
/// Of a number of each data rank. Counted on the host and, over several ranks, by the hosts among themselves:
/// no device is waited for.
double sum_over_data(const Session&, double value);
/// The mean of the global batch from this rank's part of it; undefined on a rank that does not run the head.
Tensor global_loss(const Session&, const Tensor& part);
}  // namespace optrush
