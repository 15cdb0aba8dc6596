#include "measure/most_flops.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace optrush {
namespace {
/// fp32 FLOPs per cycle. A multiply-add counts two, on two units (four narrow ones on AArch64).
double fp32_per_cycle(const CpuInfo& cpu) {
  const auto has = [&](std::string_view name) { return std::ranges::find(cpu.isa, name) != cpu.isa.end(); };
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  if (has("sve") || has("sve2") || has("sme")) return kUnknown;  // the width depends on the maker
  if (has("avx512f")) return 2 * 2 * 16;
  if (has("avx") || has("avx2")) return 2 * 2 * 8;
  if (has("asimd")) return 2 * 4 * 4;
  if (has("sse4_2")) return 2 * 2 * 4;
  return kUnknown;
}

/// AMX tiles multiply types of two bytes: 16 x 16 sums of 32 products in 16 cycles; twice this rate to be
/// safe.
bool has_tiles(const CpuInfo& cpu) {
  return std::ranges::any_of(cpu.isa, [](const std::string& name) { return name.starts_with("amx_"); });
}
}  // namespace

double most_flops(const CpuInfo& cpu, c10::ScalarType type) {
  constexpr double kClock = 10e9, kTiles = 4096;
  const auto bytes = static_cast<double>(c10::elementSize(type));
  double per_cycle = fp32_per_cycle(cpu) * 4 / bytes;
  if (bytes == 2 && has_tiles(cpu)) per_cycle = std::max(per_cycle, kTiles);
  return static_cast<double>(std::max<int64_t>(cpu.threads, 1)) * kClock * per_cycle;
}

double shortest_possible(double so_far, double seconds, double least) {
  if (seconds <= least) return so_far;
  return so_far > 0 ? std::min(so_far, seconds) : seconds;
}
}  // namespace optrush
