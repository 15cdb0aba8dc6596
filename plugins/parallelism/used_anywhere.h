#pragma once
#include <ATen/Functions.h>

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "optrush/forecast.h"
#include "optrush/run.h"

namespace optrush {
/// Which of `params` got a gradient on any rank in this step. `used_here` has the answer for this
/// rank alone. An optimizer skips the other parameters, as in one process. All ranks that have a parameter
/// (all dimensions but Param::absent_over) must call this once a step, with the same parameters in the same
/// order. Only hosts wait for each other.
inline std::vector<char> used_anywhere(Run& run, std::span<const Param* const> params,
                                       std::vector<char> used_here) {
  if (is_forecast(run.device())) return used_here;
  std::map<Mesh::Names, std::vector<size_t>> by_dims;
  for (size_t i = 0; i < params.size(); ++i) {
    Mesh::Names dims = run.mesh().all();
    const auto& absent = params[i]->absent_over;
    std::erase_if(dims, [&](const auto& dim) { return std::ranges::find(absent, dim) != absent.end(); });
    if (run.mesh().size(dims) > 1) by_dims[dims].push_back(i);
  }
  for (const auto& [dims, members] : by_dims) {
    const Tensor flags = at::empty({std::ssize(members)}, at::kByte);
    auto* const values = flags.mutable_data_ptr<uint8_t>();
    for (size_t i = 0; i < members.size(); ++i) values[i] = static_cast<uint8_t>(used_here[members[i]]);
    run.mesh().group(dims).all_reduce_max(flags).wait();
    for (size_t i = 0; i < members.size(); ++i) used_here[members[i]] = static_cast<char>(values[i]);
  }
  return used_here;
}
}  // namespace optrush
