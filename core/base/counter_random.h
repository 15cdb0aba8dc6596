#pragma once
#include <bit>
#include <cstdint>

namespace optrush {
/// Mixes all bits of x (the finalizer of SplitMix64).
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// A random number computed from (seed, index) without a state. It is equal on every rank and machine.
constexpr uint64_t random_at(uint64_t seed, uint64_t index) { return mix(mix(seed) ^ index); }

/// Scales a 64-bit random number to [0, n); n must be below 2^32.
constexpr uint64_t below(uint64_t random, uint64_t n) { return ((random >> 32) * n) >> 32; }

/// The image of `index` under a seeded permutation of [0, n): a Feistel network over the next even number of
/// bits, repeated until the result is below n.
constexpr uint64_t permuted(uint64_t index, uint64_t n, uint64_t seed) {
  if (n <= 1) return index;
  const int half = (std::bit_width(n - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t next = left ^ (random_at(seed + round, right) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= n);
  return index;
}
}  // namespace optrush
