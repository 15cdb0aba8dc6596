#pragma once
#include <ATen/record_function.h>

#include <string>
#include <string_view>

#include "optrush/tensor.h"

namespace optrush {
/// Names of the events with which functions report their costs to observers (optrush/forecast.h).
inline constexpr std::string_view kNotedFlops = "optrush::flops";  ///< {flops}
/// {bytes, launches}; followed by the kernel's name, so that a trace shows it
inline constexpr std::string_view kNotedKernel = "optrush::kernel::";
/// {flops}: the part of the counted FLOPs that depends on the documents' lengths, by Segments::pairs
inline constexpr std::string_view kDocumentFlops = "optrush::document_flops";

/// The cost of an operator call on a GPU, predicted from its name and tensors.
///
/// Launches: one per operator that computes; none for views and allocations. An operator that calls others
/// costs the sum of them, unless a GPU has a kernel for it. Multi-tensor operators launch once per 320 chunks
/// of 65,536 elements, or per number of tensors that fit into the kernel's arguments
/// (ATen/native/cuda/MultiTensorApply.cuh). Elementwise operators and sums launch once per piece with 32-bit
/// offsets (TensorIterator::with_32bit_indexing). Libraries are assumed to launch one kernel per matrix
/// product, one per attention forward and three per attention backward (FlashAttention 2: row sums,
/// gradients, conversion of dQ). Bytes: each tensor is read and written once; an expanded axis counts once,
/// and of a table only the rows looked up.
struct OperatorCost {
  int64_t launches = 0;
  int64_t host_waits = 0;   ///< reads of values by the host, blocking copies, sizes that depend on values
  int64_t copies = 0;       ///< copies between host and device
  int64_t casts = 0;        ///< copies between floating-point types
  double copied_bytes = 0;  ///< bytes of `copies`
  double cast_bytes = 0;    ///< bytes read and written by `casts`
  /// Bytes of all kernels other than matrix products and attention; includes casts
  double elementwise_bytes = 0;
  double matmul_flops = 0;  ///< mm, addmm, bmm, baddbmm, _scaled_mm
  /// Of fused kernels: forward 4 B H S S K, backward 10 B H S S K, half of both if causal
  double attention_flops = 0;
  double noted_flops = 0;     ///< reported by note_flops
  double document_flops = 0;  ///< the part of all FLOPs that depends on the documents' lengths

  double flops() const { return matmul_flops + attention_flops + noted_flops; }
  OperatorCost& operator+=(const OperatorCost&);
};

/// Up to so many tokens, a GPU adds to an embedding unsorted, by one kernel (ATen/native/cuda/Embedding.cu).
constexpr int64_t kEmbeddingTokensUnsorted = 3072;

/// The cost of one operator call, from start to end.
class OperatorCall {
 public:
  /// Reads the arguments, which the end of the call lacks. Tensors on other devices cost only copies.
  OperatorCall(const at::RecordFunction&, at::Device device);
  /// Whether the costs of the operators inside replace its own. Otherwise they are part of it.
  bool made_of_others() const { return kind_ == Kind::any; }
  /// The cost, when outputs are known. `inside`: operators inside have costs.
  OperatorCost end(const at::RecordFunction&, bool inside);
  /// "aten::mul"; for functions that report themselves "optrush::" and a name.
  const std::string& name() const { return name_; }
  /// The tensors that the call casts to another type.
  const Tensors& cast_from() const { return cast_from_; }

 private:
  enum class Kind : uint8_t { free, any, whole, matmul, attention, copy, multi_tensor, wait, noted };
  void begin_copy(const Tensor& to, const Tensor& from, bool non_blocking);
  void begin_multi_tensor(const at::RecordFunction&);

  Kind kind_ = Kind::any;
  at::Device device_;
  std::string name_;
  bool here_ = false;                   ///< one of its tensors is on the device
  int64_t whole_ = 0;                   ///< kernels independent of tensor sizes
  int64_t in_pieces_ = 1, pieces_ = 1;  ///< kernels per piece with 32-bit offsets
  double read_ = 0, written_ = 0, first_ = 0, others_ = 0;
  OperatorCost cost_;
  Tensors cast_from_;
};
}  // namespace optrush
