#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace optrush {
/// The elements of a tensor in a safetensors file.
struct StoredNumbers {
  std::string dtype;  ///< as the format writes it: "BF16"
  std::span<const std::byte> bytes;
};

/// Whether two tensors of equal shape hold the same numbers, each stored as F64, F32, F16 or BF16. Tensors of
/// other types must have equal type and bytes.
bool same_numbers(const StoredNumbers&, const StoredNumbers&);
}  // namespace optrush
