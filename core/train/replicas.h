#pragma once
#include "train/session.h"

namespace optrush {
/// Checks that copies of a parameter on several ranks are equal, by a sum over their bits. Every rank calls
/// it, between steps. Throws an Error that names the first differing parameter and the ranks. If each rank
/// computes the gradient of its copy separately, for example of uncut matrices under tensor parallelism,
/// copies may round differently: a small difference is then a warning of the run.
void check_replicas(Session&);
}  // namespace optrush
