#pragma once
#include "train/session.h"

namespace optrush {
/// Holds the copies of parameters that ranks keep against each other, by a sum over their bits. Every rank
/// calls it, between steps. An Error names the first parameter whose copies differ, and the ranks. Copies
/// whose gradients ranks compute each for themselves, as those of matrices that are not cut under tensor
/// parallelism, may round differently: there a small difference is a warning of the run.
void check_replicas(Session&);
}  // namespace optrush
