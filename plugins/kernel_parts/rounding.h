#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

/// Matrices that the GPU kernel which computes them writes in 8 bits, because only products in 8 bits read
/// them. Their scale is known before. The linears offer it on their outputs, and a kernel that computes
/// gradients, or the input of a further linear, may take it. Its result is then a tensor without numbers,
/// which carries the matrix in 8 bits.
namespace optrush::fused {
/// Scales that are known before a matrix is read. Undefined tensors: none.
struct Delayed {
  at::Tensor past;  ///< fp32: the largest of it gives the scale; if that is 0, the scale is 1
  at::Tensor seen;  ///< fp32, (kLargestParts): raised to the parts of the largest value of this matrix
};

struct Rounding {
  at::ScalarType type = at::kFloat8_e4m3fn;
  Delayed scale;
  bool both_ways = true;  ///< also the transpose
};

/// What linears of one input offer on their outputs.
struct RoundingOffer {
  Rounding gradients;               ///< of all outputs beside each other
  std::optional<Rounding> product;  ///< of the only tensor that is computed from the outputs, if it is known
  at::Tensor unread;  ///< (1), of the outputs' type, NaN: the numbers of a tensor without numbers
};

/// A matrix in 8 bits.
struct Rounded {
  Rounding rounding;
  at::Tensor values;      ///< (R, C)
  at::Tensor transposed;  ///< (C, R), undefined if not both ways
  at::Tensor scale;       ///< fp32, (1, 1): values times scale is the matrix
};
/// Without values, for a kernel. The device is that of the scale.
Rounded new_rounded(const Rounding&, int64_t rows, int64_t columns);

/// Leaves an offer on the outputs of one call. It is gone when an output changes, and a copy has none.
void offer_rounding(const at::TensorList outputs, RoundingOffer);
/// The offer, if these tensors are all outputs of one call, in order; otherwise null.
std::shared_ptr<const RoundingOffer> offered_rounding(at::TensorList outputs);

/// Tensors (.., C_i), whose numbers are columns of a matrix in 8 bits, side by side. Numbers that are read
/// are NaN.
std::vector<at::Tensor> without_numbers(Rounded, const RoundingOffer&, at::IntArrayRef sizes, int64_t count);
/// Moves what the tensor carries to a view with the same columns.
void carry_over(const at::Tensor& from, const at::Tensor& to);
/// The matrix in 8 bits that the tensors carry together; null if none of them carries one. Throws an Error
/// if they are not all of its columns, or if it is not what `wanted` asks for, because there are no numbers.
std::shared_ptr<const Rounded> carried(at::TensorList side_by_side, const Rounding& wanted);
}  // namespace optrush::fused
