#pragma once
#include <array>
#include <cstdint>

/// The values of the 4-bit codes of a matrix (arXiv:2305.14314, section 3 and appendix E). This header does
/// not include torch, because the kernels read it.
namespace optrush::nf4 {
/// Consecutive numbers that share a scale, which is their largest magnitude.
inline constexpr int64_t kBlock = 64;
/// Consecutive scales that are quantized together.
inline constexpr int64_t kScales = 256;

/// NormalFloat: each value is equally likely for normally distributed numbers over their largest magnitude; 0
/// is one of them.
inline constexpr std::array<float, 16> kNumbers = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};
}  // namespace optrush::nf4
