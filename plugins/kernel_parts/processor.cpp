#include "kernel_parts/processor.h"

#include <cstdlib>
#include <string_view>

namespace optrush::fused {
namespace {
#if defined(__x86_64__)
/// oneDNN's limit for instruction sets: the program sets it where a virtual machine hides AMX's tiles.
bool may_use_amx() {
  const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");  // NOLINT(concurrency-mt-unsafe)
  return limit == nullptr || std::string_view(limit).find("AMX") != std::string_view::npos;
}

bool found() {
  if (__builtin_cpu_supports("amx-bf16") && may_use_amx()) return false;
  return !(__builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16"));
}
#else
bool found() { return false; }
#endif
}  // namespace

bool multiplies_faster_in_fp32() {
  static const bool faster = found();
  return faster;
}
}  // namespace optrush::fused
