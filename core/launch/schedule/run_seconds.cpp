#include "launch/schedule/run_seconds.h"

namespace optrush {
double seconds_of(const RunResult& run, int64_t steps) {
  return run.setup_seconds + run.compile_seconds + run.step_seconds.value() * static_cast<double>(steps);
}
}  // namespace optrush
