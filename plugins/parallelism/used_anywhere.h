#pragma once
#include <ATen/Functions.h>

#include <algorithm>
#include <vector>

#include "optrush/forecast.h"
#include "optrush/run.h"

namespace optrush {
/// Of parameters that got a gradient on this rank in the present step, those that got one on any rank: the
/// optimizer leaves the others alone, as in one process. The ranks that share the layers of this one (all
/// dimensions but Mesh::layers()) call it once a step, with the same parameters in one order. Hosts alone
/// wait for each other.
inline std::vector<char> used_anywhere(Run& run, std::vector<char> used_here) {
  Mesh::Names dims = run.mesh().all();
  const Mesh::Names layers = run.mesh().layers();
  std::erase_if(dims, [&](const auto& dim) { return std::ranges::find(layers, dim) != layers.end(); });
  if (run.mesh().size(dims) == 1 || is_forecast(run.device()) || used_here.empty()) return used_here;
  const Tensor flags = at::empty({std::ssize(used_here)}, at::kByte);
  auto* const values = flags.mutable_data_ptr<uint8_t>();
  std::ranges::copy(used_here, values);
  run.mesh().group(dims).all_reduce_max(flags).wait();
  std::ranges::copy_n(values, std::ssize(used_here), used_here.begin());
  return used_here;
}
}  // namespace optrush
