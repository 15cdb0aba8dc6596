#pragma once
#include <memory>
#include <vector>

#include "optrush/saved_tensors.h"

namespace optrush::checkpointing {
class Quantized;

/// Keeps what autograd saves in 8 bits: a code for each number and an fp32 scale for each 256 of them, which
/// is their largest magnitude over 127 (arXiv:2104.14129, without its chances: rounded to the nearest). Each
/// storage is quantized once, however many saved tensors are views of it. What is small beside the input of
/// the block, such as the statistics of a norm or of a softmax, keeps its bits, as does what is no
/// floating-point number.
class Quantize {
 public:
  static constexpr int64_t kBlock = 256;
  /// What has fewer numbers than this share of the block's input is small.
  static constexpr int64_t kSmall = 16;

  /// `numbers`: of the input of the block that the tensor is saved in.
  PackedTensor pack(const Tensor& tensor, int64_t numbers);

 private:
  std::shared_ptr<Quantized> quantized(const Tensor& tensor);

  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  ///< keeps its address from being another's
    at::ScalarType type;
    std::weak_ptr<Quantized> quantized;
  };
  std::vector<Entry> known_;  ///< of the present forward
};
}  // namespace optrush::checkpointing
