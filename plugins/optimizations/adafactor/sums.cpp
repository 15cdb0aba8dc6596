#include "sums.h"

#include <ATen/Functions.h>

#include <algorithm>

namespace optrush::adafactor {
at::ScalarType wide_type(const Param& param) { return param.dtype == at::kDouble ? at::kDouble : at::kFloat; }

std::vector<SplitOver> split_parameters(Run& run) {
  std::vector<SplitOver> groups;
  for (const Param* param : run.params().all()) {
    Mesh::Names dims = param->cut_over();
    if (!param->trainable || run.mesh().size(dims) == 1) continue;
    Group* group = &run.mesh().group(dims);
    const auto type = wide_type(*param);
    auto found = std::ranges::find_if(
        groups, [&](const SplitOver& each) { return each.group == group && each.type == type; });
    if (found == groups.end())
      found = groups.insert(groups.end(), {group, std::move(dims), type, run.device(), {}});
    found->params.push_back(param);
  }
  return groups;
}

void sum_over_ranks(std::span<const SplitOver> groups, Numbers& numbers, int64_t (*count)(const Param&)) {
  for (const SplitOver& each : groups) {
    int64_t size = 0;
    for (const Param* param : each.params) size += count(*param);
    const Tensor all = at::zeros({size}, at::TensorOptions(each.type).device(each.device));
    int64_t at = 0;
    const auto part_of = [&](const Param& param) {
      const Tensor part = all.narrow(0, at, count(param));
      at += part.numel();
      return part;
    };
    for (const Param* param : each.params) {
      const Tensor part = part_of(*param);
      if (const auto here = numbers.find(param); here != numbers.end()) part.copy_(here->second.flatten());
    }
    each.group->all_reduce(all).wait();
    at = 0;
    for (const Param* param : each.params) {
      const Tensor part = part_of(*param);
      if (const auto here = numbers.find(param); here != numbers.end()) here->second.flatten().copy_(part);
    }
  }
}
}  // namespace optrush::adafactor
