#pragma once
#include <cstdint>

namespace optrush {
/// CPUs that this process may use.
int64_t usable_cores();

/// CPUs that the process may use that started this one.
int64_t cores_of_parent();

/// CPUs for each of `ranks` on this machine, at least 1. `own` are those of this process. A launcher that has
/// `launcher` CPUs may have bound this process to some of them, which are then for its one rank.
int64_t share_of_cores(int64_t ranks, int64_t own, int64_t launcher);

/// The threads that OMP_NUM_THREADS requests; 0 if it is not set. torchrun sets it to 1 if it is not set, so
/// 1 under torchrun counts as not set.
int64_t asked_threads();

/// Threads of one of `ranks` on this machine where its spec names no number: those that are asked for, else
/// its share of the cores.
int64_t usual_threads(int64_t ranks);
}  // namespace optrush
