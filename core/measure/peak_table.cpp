#include "measure/peak_table.h"

namespace optrush {
namespace {
struct Peak {
  std::string_view name;
  double teraflops;
};
// Dense, not the doubled figure "with sparsity"; accumulation in fp32.
constexpr Peak kPeaks[] = {
    {"NVIDIA A100-PCIE-40GB", 312},  {"NVIDIA A100-SXM4-40GB", 312},
    {"NVIDIA A100 80GB PCIe", 312},  {"NVIDIA A100-SXM4-80GB", 312},
    {"NVIDIA H100 80GB HBM3", 989},  {"NVIDIA H100 PCIe", 756},
    {"NVIDIA H100 NVL", 835},        {"NVIDIA H200", 989},
    {"NVIDIA B200", 2250},           {"NVIDIA GeForce RTX 4090", 165},
    {"NVIDIA GeForce RTX 3090", 71},
};
}  // namespace

std::optional<double> published_bf16_peak(std::string_view device_name) {
  for (const Peak& peak : kPeaks)
    if (peak.name == device_name) return peak.teraflops * 1e12;
  return std::nullopt;
}
}  // namespace optrush
