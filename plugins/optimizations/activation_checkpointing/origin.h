#pragma once
#include <optional>

#include "optrush/tensor.h"

namespace optrush::checkpointing {
/// How a saved tensor follows from an input of the operator that saved it: as a view, or as a view of the
/// input in another type (what autocast makes of it). So it need not be kept: the input gives it back.
class Origin {
 public:
  /// Nothing where `saved` is neither.
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
/// Parameters, their casts by autocast, the batch: these live or are made again anyway.
bool lives_anyway(const Tensor& tensor);
const void* storage_of(const Tensor& tensor);
}  // namespace optrush::checkpointing
