#include <algorithm>
#include <cmath>

#include "base/contains.h"
#include "base/files.h"
#include "machine/gpu_cards.h"
#include "measure/cpu_info.h"
#include "measure/gpus.h"
#include "measure/matmul_peak.h"
#include "worker/commands.h"

namespace optrush {
namespace {
/// Speed of bf16 products relative to fp32. Measured, because announced instructions may be slow.
double bf16_speedup(const CpuInfo& cpu) {
  const auto fast = {"avx512_bf16", "amx_bf16", "bf16"};
  if (std::ranges::none_of(fast, [&](const char* name) { return contains(cpu.isa, name); })) return 0;
  constexpr double kSeconds = 1;
  double fp32 = 0, bf16 = 0;
  for (const auto& [dtype, flops] : measure_matmul_peak(at::kCPU, kSeconds)) {
    if (dtype == "fp32") fp32 = flops;
    if (dtype == "bf16") bf16 = flops;
  }
  return fp32 > 0 ? std::round(10 * bf16 / fp32) / 10 : 0;
}
}  // namespace

int gpus_command(const std::filesystem::path& out) {
  Json list = Json::array();
  for (const GpuInfo& gpu : visible_gpus(nullptr))
    list.push_back(to_json(PlannedGpu{gpu.name, gpu.memory_bytes, gpu.sm}));
  write_json(out, list);
  return 0;
}

int cpu_command(const std::filesystem::path& out) {
  const CpuInfo cpu = read_cpu();
  write_json(out,
             {{"name", cpu.name}, {"free_bytes", cpu.available_bytes}, {"bf16_speedup", bf16_speedup(cpu)}});
  return 0;
}
}  // namespace optrush
