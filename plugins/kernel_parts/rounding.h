#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

/// Matrices that the GPU kernel which computes them writes in 8 bits, because only products in 8 bits read
/// them. Their scale is known before. The linears offer it on tensors from which these matrices are computed:
/// on their outputs, for the outputs' gradients and for the input of a further linear, and on the input of a
/// norm, for their own input. A kernel may take the offer. Its result is then a tensor without numbers, which
/// carries the matrix in 8 bits.
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

/// What linears offer on one tensor, or on several that are read together.
struct RoundingOffer {
  std::optional<Rounding> gradients;  ///< of all these tensors beside each other
  std::optional<Rounding> product;    ///< of the only tensor that is computed from them, if it is known
  at::Tensor unread;  ///< (1), of that tensor's type, NaN: the numbers of a tensor without numbers
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

/// Leaves an offer on these tensors. It is gone when one of them changes, and a copy has none.
void offer_rounding(at::TensorList, RoundingOffer);
void withdraw_rounding(const at::Tensor&);
/// The offer, if it was left on exactly these tensors, in order; otherwise null.
std::shared_ptr<const RoundingOffer> offered_rounding(at::TensorList);

/// Tensors (.., C_i), whose numbers are columns of a matrix in 8 bits, side by side. Numbers that are read
/// are NaN.
std::vector<at::Tensor> without_numbers(Rounded, const RoundingOffer&, at::IntArrayRef sizes, int64_t count);
/// Moves what the tensor carries to a view with the same columns.
void carry_over(const at::Tensor& from, const at::Tensor& to);
/// The matrix in 8 bits that the tensors carry together; null if none of them carries one. Throws an Error
/// if they are not all of its columns, or if it is not what `wanted` asks for, because there are no numbers.
std::shared_ptr<const Rounded> carried(at::TensorList side_by_side, const Rounding& wanted);
}  // namespace optrush::fused
