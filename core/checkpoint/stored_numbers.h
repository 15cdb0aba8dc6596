#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace optrush {
/// Elements of a tensor as a safetensors file holds them.
struct StoredNumbers {
  std::string dtype;  ///< as the format writes it: "BF16"
  std::span<const std::byte> bytes;
};

/// Whether two tensors of one shape hold the same numbers, in whichever of F64, F32, F16 and BF16 each is
/// stored. Tensors of other types are equal if type and bytes are.
bool same_numbers(const StoredNumbers&, const StoredNumbers&);
}  // namespace optrush
