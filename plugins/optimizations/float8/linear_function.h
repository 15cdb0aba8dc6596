#pragma once
#include <optional>
#include <vector>

#include "optrush/differentiable.h"
#include "past_scales.h"
#include "scaled.h"

namespace optrush::float8 {
/// The products whose sums a GPU may accumulate in fewer than 32 bits.
enum class FastSums : uint8_t { none, forward, all };

/// How the factors of the products are rounded, and how their sums.
struct Formats {
  Scaling inputs = Scaling::tensorwise;   ///< of x and of the outputs' gradients
  Scaling weights = Scaling::tensorwise;  ///< blockwise if inputs are groupwise, otherwise like inputs
  at::ScalarType gradients = at::kFloat8_e5m2;
  FastSums fast_sums = FastSums::forward;

  /// K, N_i and, to train W_i, the number of rows of x must be multiples of this.
  int64_t multiple() const { return in_groups(inputs) ? kGroup : 16; }
};

/// The matrices of one input in fp8, in the layouts of the forward and the backward. They are quantized at
/// the first request, again if one has changed, and dropped after each step. A trace contains the
/// quantization.
class StepWeights {
 public:
  /// The matrices (N_i, K) below each other, for the forward.
  Scaled rows(at::TensorList weights, Scaling);
  /// Their transpose (K, ΣN_i), for the gradient of x.
  Scaled columns(at::TensorList weights, Scaling);
  void drop() { *this = {}; }

 private:
  bool are(at::TensorList weights) const;

  Tensors of_;
  std::vector<int64_t> versions_;
  Scaled rows_, columns_;
};

/// What is known of the tensors that are computed from the outputs of linears of one input.
struct AfterOutputs {
  /// No other operator reads the outputs than the one that computes the product of gate and up, so their
  /// gradients may be written in 8 bits alone.
  bool read_once = false;
  /// The same of the product: its number in PastScales, if it is the input of one linear in fp8.
  std::optional<int64_t> product = {};
  bool product_both_ways = true;  ///< that linear is trained
};

/// The scales of one input and of the gradients of its outputs.
struct ScalesOfInput {
  const PastScales* past = nullptr;  ///< null: from the tensors
  int64_t first = 0;                 ///< the number of x in `past`; the gradients are the next one
  AfterOutputs after = {};

  Delayed of_x() const { return past == nullptr ? Delayed() : past->of(first); }
  Delayed of_gradients() const { return past == nullptr ? Delayed() : past->of(first + 1); }
};

/// Offers on `from` that the kernel which computes x from it writes x in 8 bits (kernel_parts/rounding.h). x
/// must have no other readers than the linears of these scales. `trained`: whether one of them is.
void offer_input(const Tensor& from, const ScalesOfInput&, bool trained);

/// x W_iᵀ for linears of one input, with every product in fp8: inputs x (.., K) and W_i (N_i, K) in bf16 or
/// fp32; the outputs (.., N_i) are in bf16. x is quantized once for all, and the W_i and the outputs'
/// gradients as one matrix each, so that the gradient of x is one product. x and W_i are e4m3; the outputs'
/// gradients have the type of `Formats::gradients`. The factor x of the gradients of W_i is kept in fp8, one
/// byte a number; it is not kept if no W_i is trained. K and N_i must be multiples of 16. If a W_i is
/// trained, so must the number of rows. `weights` and the past scales live as long as the pair; `trained`:
/// for each W_i.
Differentiable make_linear_function(Formats, StepWeights* weights, std::vector<bool> trained,
                                    ScalesOfInput = {});
}  // namespace optrush::float8
