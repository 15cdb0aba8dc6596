#pragma once
#include <deque>
#include <string>
#include <vector>

#include "reductions.h"

namespace optrush::fsdp {
/// A top unit and the groups that it reads.
struct UnitUse {
  bool first_of_chunk = false;
  std::vector<const FlatGroup*> groups;
};
struct Sent {
  std::string collective;
  Mesh::Names dims;
  double bytes = 0;
};

/// Theoretical traffic of a rank in a step: (N - 1) / N of the bytes of parameters for each gather and each
/// reduce-scatter over N ranks, twice as much for each sum over R ranks that hold copies. Padding is not
/// counted.
std::vector<Sent> traffic_of_step(const std::vector<UnitUse>& units, const std::deque<FlatGroup>& groups,
                                  const Policy&, const Reductions&, const Mesh&, int64_t microbatches);
}  // namespace optrush::fsdp
