#include "machine/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace optrush {
namespace {
/// CPUs in the affinity mask of a process (0: this one); 0 if the kernel does not report them.
int64_t cores_of(pid_t process) {
  cpu_set_t mask;
  return sched_getaffinity(process, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 0;
}
}  // namespace

int64_t usable_cores() {
  if (const int64_t cores = cores_of(0); cores > 0) return cores;
  return std::max<int64_t>(1, std::thread::hardware_concurrency());
}

int64_t cores_of_parent() { return cores_of(getppid()); }

int64_t share_of_cores(int64_t ranks, int64_t own, int64_t launcher) {
  return std::max<int64_t>(1, std::min(own, std::max(own, launcher) / ranks));
}

int64_t asked_threads() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  // "4,2" means 4 threads in the outer team
  const int64_t threads = text == nullptr ? 0 : std::max(0, std::atoi(text));
  const bool of_torchrun = threads == 1 && std::getenv("TORCHELASTIC_RUN_ID") != nullptr;
  return of_torchrun ? 0 : threads;
}

int64_t usual_threads(int64_t ranks) {
  const int64_t asked = asked_threads();
  return asked > 0 ? asked : share_of_cores(ranks, usable_cores(), ranks > 1 ? cores_of_parent() : 0);
}
}  // namespace optrush
