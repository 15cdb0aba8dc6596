#pragma once
#include "optrush/param.h"

namespace optrush::nf4 {
/// Two numbers a byte, the first one in its upper half, in blocks of 64 with a scale each. Scales are fp32,
/// or 8 bits with mean and step of 256 of them: 4.5 or 4.127 bits a number. Mean and step are the group's
/// own, so a shard is encoded as the whole is.
class Nf4Codec final : public Codec {
 public:
  explicit Nf4Codec(bool double_quantization) : double_quantization_(double_quantization) {}

  std::vector<Field> fields() const override;
  Tensors encode(const Tensor& value) const override;
  /// In fp32.
  Tensor decode(const Tensors& stored, at::IntArrayRef shape) const override {
    return decode_as(at::kFloat, stored, shape);
  }
  int64_t block() const override;

  /// In any floating-point type.
  Tensor decode_as(at::ScalarType, const Tensors& stored, at::IntArrayRef shape) const;

 private:
  bool double_quantization_;
};
}  // namespace optrush::nf4
