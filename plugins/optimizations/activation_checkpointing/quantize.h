#pragma once
#include <memory>
#include <vector>

#include "optrush/advanced/saved_tensors.h"

namespace optrush::checkpointing {
class Quantized;

/// Keeps tensors that autograd saves in 8 bits: a code for each number and an fp32 scale for each 256
/// numbers, which is their largest magnitude over 127 (arXiv:2104.14129, but rounded to nearest). Each
/// storage is quantized once, for all saved tensors that are views of it. Tensors that are small beside the
/// block's input, such as statistics of a norm or softmax, keep their bits. So do tensors that are not
/// floating-point.
class Quantize {
 public:
  static constexpr int64_t kBlock = 256;
  /// A tensor with fewer numbers than this share of the block's input is small.
  static constexpr int64_t kSmall = 16;

  /// `numbers`: elements of the input of the block that saves the tensor.
  PackedTensor pack(const Tensor& tensor, int64_t numbers);

 private:
  std::shared_ptr<Quantized> quantized(const Tensor& tensor);

  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  ///< no other storage can get its address
    at::ScalarType type;
    std::weak_ptr<Quantized> quantized;
  };
  std::vector<Entry> known_;  ///< of the present forward
};
}  // namespace optrush::checkpointing
