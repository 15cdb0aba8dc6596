#pragma once
#include <span>
#include <unordered_map>
#include <vector>

#include "optrush/run.h"
#include "optrush/shard.h"

namespace optrush::adafactor {
/// Numbers of each parameter, flat and in one type.
using Numbers = std::unordered_map<const Param*, Tensor>;

/// Parameters that the ranks of a group share in parts.
struct SplitOver {
  Group* group = nullptr;
  Mesh::Names dims;
  at::ScalarType type = at::kFloat;
  at::Device device = at::kCPU;
  std::vector<const Param*> params;
};

/// fp64 for a parameter in fp64, otherwise fp32.
at::ScalarType wide_type(const Param&);

/// The trainable parameters of which ranks have parts, by group and type. Parameters of other layers are not
/// parts. The same on every rank of a group.
std::vector<SplitOver> split_parameters(Run&);

/// Adds up the numbers over the ranks of each group, `count(param)` numbers for each parameter. A rank that
/// has no part of a parameter adds zeros and does not keep the sums.
void sum_over_ranks(std::span<const SplitOver> groups, Numbers& numbers, int64_t (*count)(const Param&));
}  // namespace optrush::adafactor
