#pragma once
#include <cstdint>

namespace optrush::fused {
/// The types that kernels take. Arithmetic is in fp32, in fp64 for fp64.
enum class Type : uint8_t { fp32, fp64, bf16, fp16 };

inline int64_t size_of(Type type) { return type == Type::fp64 ? 8 : type == Type::fp32 ? 4 : 2; }

/// Whether one instruction of this processor rounds fp32 to bf16. It takes denormal numbers for 0.
#if defined(__x86_64__)
inline const bool kRoundsToBf16 = __builtin_cpu_supports("avx512bf16") != 0;
#else
inline constexpr bool kRoundsToBf16 = false;
#endif
}  // namespace optrush::fused
