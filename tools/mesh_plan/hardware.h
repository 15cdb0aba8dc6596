#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace optrush::mesh_plan {
/// One way out of a device.
struct Link {
  double bandwidth = 0;    ///< bytes a second in each direction that a collective reaches
  double hop_seconds = 0;  ///< of one step round a ring, whatever its size
};

/// Devices and their links as plain numbers; `sources` has the origin of each.
struct Hardware {
  std::string name;
  double flops = 0;             ///< that a whole forward and backward reach a second, in bf16 or fp32
  double fp8_flops = 0;         ///< the same for products in fp8; 0: there are none
  double peak_flops = 0;        ///< that an MFU divides by; 0: unknown
  double memory = 0;            ///< bytes of a device
  double memory_bandwidth = 0;  ///< bytes a second
  Link node, network;           ///< between the devices of a node, and of a device to other nodes
  int64_t per_node = 8;
  std::vector<std::string> sources;
};

/// A ring of ranks, `inner` devices apart: how fast it is.
struct Ring {
  int64_t ranks = 1;
  bool over_network = false;
  double bandwidth = 0;  ///< of the ring: its ranks of one node share their network links
  double hop = 0;        ///< bytes a second from one rank to the next, at the slowest place
  double latency = 0;    ///< seconds of one way round
};
Ring ring_of(const Hardware&, int64_t inner, int64_t ranks);

std::vector<std::string> hardware_names();
/// A preset by its name; an Error names the nearest.
Hardware hardware_preset(const std::string& name);
}  // namespace optrush::mesh_plan
