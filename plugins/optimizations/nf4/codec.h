#pragma once
#include "optrush/param.h"

namespace optrush::nf4 {
/// Two numbers per byte, the first in the upper half. Each block of 64 has a scale: fp32, or 8 bits with the
/// mean and step of 256 scales. A number takes 4.5 or 4.127 bits. Mean and step depend only on their group,
/// so a shard gets the same codes as the whole matrix.
class Nf4Codec final : public Codec {
 public:
  explicit Nf4Codec(bool double_quantization) : double_quantization_(double_quantization) {}

  std::vector<Field> fields() const override;
  Tensors encode(const Tensor& value) const override;
  /// Returns fp32.
  Tensor decode(const Tensors& stored, at::IntArrayRef shape) const override {
    return decode_as(at::kFloat, stored, shape);
  }
  int64_t block() const override;

  /// Returns any floating-point type.
  Tensor decode_as(at::ScalarType, const Tensors& stored, at::IntArrayRef shape) const;

 private:
  bool double_quantization_;
};
}  // namespace optrush::nf4
