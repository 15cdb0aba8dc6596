#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace optrush::mesh_plan {
/// One link of a device.
struct Link {
  double bandwidth = 0;    ///< bytes per second in each direction that a collective reaches
  double hop_seconds = 0;  ///< latency of one step round a ring
};

/// Devices and their links as plain numbers; `sources` names the origin of each.
struct Hardware {
  std::string name;
  double flops = 0;             ///< FLOP/s of a whole forward and backward, in bf16 or fp32
  double fp8_flops = 0;         ///< the same for products in fp8; 0 if there are none
  double peak_flops = 0;        ///< the denominator of an MFU; 0 if unknown
  double memory = 0;            ///< bytes of a device
  double memory_bandwidth = 0;  ///< bytes per second
  Link node, network;           ///< between devices of a node, and from a device to other nodes
  int64_t per_node = 8;
  std::vector<std::string> sources;
};

/// The speed of a ring of ranks that are `inner` devices apart.
struct Ring {
  int64_t ranks = 1;
  bool over_network = false;
  double bandwidth = 0;  ///< of the ring; its ranks in one node share their network links
  double hop = 0;        ///< bytes per second from one rank to the next over the slowest link
  double latency = 0;    ///< seconds of one pass round the ring
};
Ring ring_of(const Hardware&, int64_t inner, int64_t ranks);

std::vector<std::string> hardware_names();
/// The preset of this GPU, named as for listed_gpu(). Errors name the nearest GPU, or the presets.
Hardware hardware_preset(const std::string& name);
}  // namespace optrush::mesh_plan
