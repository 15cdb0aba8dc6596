#include <cstdlib>

#include "measure/cpu_info.h"

namespace optrush {
namespace {
/// If AMX is announced without a description of its tiles, oneDNN configures none and the first bf16 product
/// ends the process with SIGILL. This disables AMX in oneDNN. It runs when the library is loaded, because
/// oneDNN reads the variable only once. A value that the user has set stays.
[[gnu::constructor]] void avoid_broken_amx() {
  if (read_cpu().broken_amx) setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16", /*overwrite=*/0);
}
}  // namespace
}  // namespace optrush
