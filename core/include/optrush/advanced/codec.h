#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "optrush/tensor.h"

namespace optrush {
/// Storage format of a parameter, for example NF4. Only operators use the decoded value.
class Codec {
 public:
  virtual ~Codec() = default;
  /// Each stored tensor is flat and has one entry for every `elements_per_entry` consecutive elements.
  struct Field {
    std::string name;
    at::ScalarType dtype = at::kByte;
    int64_t elements_per_entry = 1;
  };
  virtual std::vector<Field> fields() const = 0;
  /// The encoded tensors of a value of any shape, in order of fields(). The last entry may have fewer
  /// elements.
  virtual Tensors encode(const Tensor& value) const = 0;
  virtual Tensor decode(const Tensors& stored, at::IntArrayRef shape) const = 0;
  /// Elements that a shard must not cut: a multiple of every elements_per_entry.
  virtual int64_t block() const = 0;
};
}  // namespace optrush
