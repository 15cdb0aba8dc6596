#include <cstdlib>

#include "measure/cpu_info.h"

namespace optrush {
namespace {
/// Where AMX is announced without a description of its tiles, oneDNN sets up none and the first bf16 matmul
/// ends the process (SIGILL). Runs when the library is loaded: oneDNN reads the variable once, and a user who
/// links the library (worker, tests, a plugin's own tests) is safe. A user's own setting stays.
[[gnu::constructor]] void avoid_broken_amx() {
  if (read_cpu().broken_amx) setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16", /*overwrite=*/0);
}
}  // namespace
}  // namespace optrush
