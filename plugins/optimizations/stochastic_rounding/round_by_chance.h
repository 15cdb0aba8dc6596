#pragma once
#include <cstdint>

#include "optrush/shard.h"

namespace optrush::stochastic_rounding {
/// Rounds the fp32 numbers of a segment (flat, this rank's) to bf16, up with the probability of their
/// distance from the lower neighbour (arXiv:2010.06192). Infinities and NaN stay. The random bits follow from
/// `key` and the place of an element in the whole parameter alone, so every mesh rounds alike.
void round_by_chance(const Tensor& wide, const Tensor& narrow, const Segment& segment, uint64_t key);

/// The key of the random numbers of a parameter in a step.
uint64_t key_of(uint64_t seed, int64_t step, const std::string& parameter);
}  // namespace optrush::stochastic_rounding
