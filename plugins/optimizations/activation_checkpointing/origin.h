#pragma once
#include <optional>

#include "optrush/tensor.h"

namespace optrush::checkpointing {
/// How a saved tensor follows from an input of the operator that saved it: as a view, or as a view of the
/// input in another type (autocast's cast). It need not be kept, because it can be made from the input.
class Origin {
 public:
  /// None if `saved` does not follow from an input.
  static std::optional<Origin> find(const Tensor& saved, const Tensors& inputs);
  size_t input() const { return input_; }
  /// The saved tensor, from that input.
  Tensor derive(const Tensor& input) const;

 private:
  size_t input_ = 0;
  std::optional<at::ScalarType> cast_;
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_ = 0;
};

/// The tensor that `tensor` is a view of, or itself.
Tensor root_of(const Tensor& tensor);
/// Parameters, their casts by autocast, and the batch: they stay in memory or are made again anyway.
bool lives_anyway(const Tensor& tensor);
const void* storage_of(const Tensor& tensor);
}  // namespace optrush::checkpointing
