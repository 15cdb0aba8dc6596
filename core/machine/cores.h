#pragma once
#include <cstdint>

namespace optrush {
/// CPUs that this process may use.
int64_t usable_cores();

/// CPUs that the parent process may use.
int64_t cores_of_parent();

/// CPUs for each of `ranks` on this machine, at least 1. `own`: CPUs of this process; `launcher`: CPUs of the
/// launcher. If the launcher has bound this process to some of its CPUs, they belong to this rank only.
int64_t share_of_cores(int64_t ranks, int64_t own, int64_t launcher);

/// The threads in OMP_NUM_THREADS; 0 if it is not set, or 1 under torchrun, which sets it to 1 by default.
int64_t asked_threads();

/// Default number of threads for one of `ranks` on this machine: asked_threads(), or its share of cores.
int64_t usual_threads(int64_t ranks);
}  // namespace optrush
