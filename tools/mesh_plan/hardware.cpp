#include "mesh_plan/hardware.h"

#include <algorithm>
#include <cmath>

#include "analysis/numbers/format.h"
#include "base/suggest.h"
#include "base/text.h"
#include "machine/gpu_cards.h"
#include "optrush/error.h"

namespace optrush::mesh_plan {
namespace {
constexpr double kTera = 1e12, kGiga = 1e9, kGibi = 1 << 30;

struct Preset {
  const char* name;
  double peak, fp8_peak;                   ///< TFLOP/s, dense
  double share;                            ///< of the peak that a whole forward and backward reach
  double memory;                           ///< GiB that CUDA reports
  double memory_bandwidth, node, network;  ///< GB/s
  const char* share_source;
  const char* node_source;
};
constexpr const char *kHopperShare =
                         "llm-foundry's benchmarks: 7B, sequence 2048, 8 H100, no recomputation, 46.4 % MFU, "
                         "45 % with causal FLOPs",
                     *kAmpereShare =
                         "llm-foundry's benchmarks: 7B, sequence 2048, 8 A100, no recomputation, "
                         "64.2 % MFU, 62 % with causal FLOPs",
                     *kHopperNode = "18 NVLinks of 20.6 GB/s, as NCCL plans (src/graph/topo.h)",
                     *kAmpereNode = "12 NVLinks of 20 GB/s, as NCCL plans (src/graph/topo.h)";
constexpr Preset kPresets[] = {
    {"a100", 312, 0, 0.62, 79, 2039, 240, 25, kAmpereShare, kAmpereNode},
    {"a100-40", 312, 0, 0.62, 39, 1555, 240, 25, kAmpereShare, kAmpereNode},
    {"h100", 989, 1979, 0.45, 79, 3350, 370.8, 50, kHopperShare, kHopperNode},
    {"h200", 989, 1979, 0.45, 139, 4800, 370.8, 50, kHopperShare, kHopperNode},
};
// The model of a ring in NCCL with its protocol LL128 (src/graph/tuning.cc); so is the sum over hops.
constexpr double kNodeHop = 1.9e-6, kNetworkHop = 4.0e-6;

Hardware made(const Preset& preset) {
  Hardware hardware;
  hardware.name = preset.name;
  hardware.peak_flops = preset.peak * kTera;
  hardware.flops = preset.share * hardware.peak_flops;
  hardware.fp8_flops = preset.share * preset.fp8_peak * kTera;
  hardware.memory = preset.memory * kGibi;
  hardware.memory_bandwidth = preset.memory_bandwidth * kGiga;
  hardware.node = {preset.node * kGiga, kNodeHop};
  hardware.network = {preset.network * kGiga, kNetworkHop};
  hardware.sources = {
      "arithmetic: " + percent(preset.share, 0) + " of the data sheet's dense " +
          flops_rate(hardware.peak_flops) + ", assumed for any model (" + preset.share_source + ")",
      std::string("within a node: ") + preset.node_source + ", 1.9 us a hop (src/graph/tuning.cc)",
      "between nodes: " + grouped(preset.network) + " GB/s for each device by the data sheet, 4 us a hop"};
  if (preset.fp8_peak > 0)
    hardware.sources.push_back("fp8 products: the same share of " + flops_rate(preset.fp8_peak * kTera));
  return hardware;
}
}  // namespace

Ring ring_of(const Hardware& hardware, int64_t inner, int64_t ranks) {
  const int64_t near = std::min(ranks, std::max<int64_t>(1, hardware.per_node / inner));
  Ring ring{.ranks = ranks, .over_network = near < ranks};
  const auto hops = static_cast<double>(ranks - 1);
  if (!ring.over_network) {
    ring.bandwidth = ring.hop = hardware.node.bandwidth;
    ring.latency = hops * hardware.node.hop_seconds;
    return ring;
  }
  const double nodes = std::ceil(static_cast<double>(ranks) / static_cast<double>(near));
  ring.bandwidth = static_cast<double>(near) * hardware.network.bandwidth;
  if (near > 1) ring.bandwidth = std::min(ring.bandwidth, hardware.node.bandwidth);
  ring.hop = hardware.network.bandwidth;
  ring.latency = (nodes - 1) * hardware.network.hop_seconds + (hops - nodes + 1) * hardware.node.hop_seconds;
  return ring;
}

std::vector<std::string> hardware_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

Hardware hardware_preset(const std::string& name) {
  const auto gpu = listed_gpu(name);
  for (const Preset& preset : kPresets)
    if (gpu && listed_gpu(preset.name)->name == gpu->name) return made(preset);
  const std::string names = gpu ? "one of: " + join(hardware_names()) : did_you_mean(name, hardware_names());
  throw UsageError(ErrorCode::unknown_name,
                   gpu ? "the speeds of '" + name + "' are not listed" : "unknown hardware '" + name + "'",
                   or_else(names, "give --flops, --memory and --link"), "--hardware");
}
}  // namespace optrush::mesh_plan
