#pragma once
#include <cstdint>

namespace optrush::fused {
/// The types that kernels take. Arithmetic is in fp32, in fp64 for fp64.
enum class Type : uint8_t { fp32, fp64, bf16, fp16 };

inline int64_t size_of(Type type) { return type == Type::fp64 ? 8 : type == Type::fp32 ? 4 : 2; }
}  // namespace optrush::fused
