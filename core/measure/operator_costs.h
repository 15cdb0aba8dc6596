#pragma once
#include <ATen/record_function.h>

#include <string>

#include "optrush/tensor.h"

namespace optrush {
/// GPU cost of a call of an operator, from its name and tensors: a prediction that a profiler there can
/// refute.
///
/// Launches: one for an operator that computes (none for views and for memory that is only asked for). An
/// operator that is made of others costs what they cost, unless a GPU has one kernel for it; multi-tensor
/// operators launch once for each 320 chunks of 65,536 elements or as many tensors as fit a kernel's
/// arguments (ATen/native/cuda/MultiTensorApply.cuh). An elementwise operator or a sum goes over tensors in
/// pieces whose bytes have offsets of 32 bits, one launch each (TensorIterator::with_32bit_indexing).
/// Libraries are taken to launch one kernel a matmul, one an attention forward and three its backward
/// (FlashAttention 2: row sums, gradients, the conversion of dQ). Bytes: each tensor read and each written
/// once, an expanded axis once, of a table only the rows looked up.
struct OperatorCost {
  int64_t launches = 0;
  int64_t host_waits = 0;        ///< values read by the host, copies that block, sizes that depend on values
  int64_t copies = 0;            ///< between host and device
  int64_t casts = 0;             ///< copies between floating-point types
  double copied_bytes = 0;       ///< of `copies`
  double cast_bytes = 0;         ///< of `casts`: read and written
  double elementwise_bytes = 0;  ///< of every kernel that is neither matmul nor attention; casts among them
  double matmul_flops = 0;       ///< mm, addmm, bmm, baddbmm, _scaled_mm
  double attention_flops = 0;    ///< fused kernels: 4 B H S S K forward, 10 backward, half where causal
  double noted_flops = 0;        ///< by note_flops
  double document_flops = 0;     ///< of all these, those that follow from documents' lengths

  double flops() const { return matmul_flops + attention_flops + noted_flops; }
  OperatorCost& operator+=(const OperatorCost&);
};

/// A GPU adds the gradients of at most so many tokens to an embedding in one kernel, and sorts more of them
/// by their rows first (ATen/native/cuda/Embedding.cu).
constexpr int64_t kEmbeddingTokensUnsorted = 3072;

/// One call, between its start and its end.
class OperatorCall {
 public:
  /// Reads arguments, which are gone when it ends. `device`: what is on another costs nothing but copies.
  OperatorCall(const at::RecordFunction&, at::Device device);
  /// Whether what it calls inside counts in its place. Otherwise that is part of it.
  bool made_of_others() const { return kind_ == Kind::any; }
  /// With its outputs known. `inside`: what it called has a cost of its own.
  OperatorCost end(const at::RecordFunction&, bool inside);
  /// "aten::mul"; of what notes itself "optrush::" and its name.
  const std::string& name() const { return name_; }
  /// What was read by a change of type: of one tensor, or of several at once.
  const Tensors& cast_from() const { return cast_from_; }

 private:
  enum class Kind : uint8_t { free, any, whole, matmul, attention, copy, multi_tensor, wait, noted };
  void begin_copy(const Tensor& to, const Tensor& from, bool non_blocking);
  void begin_multi_tensor(const at::RecordFunction&);

  Kind kind_ = Kind::any;
  at::Device device_;
  std::string name_;
  bool here_ = false;                   ///< a tensor of it is on the device
  bool table_ = false;                  ///< its first input is one that rows are looked up in
  int64_t whole_ = 0;                   ///< kernels, whatever the size of its tensors
  int64_t in_pieces_ = 1, pieces_ = 1;  ///< kernels for each piece that offsets of 32 bits reach
  double read_ = 0, written_ = 0, first_ = 0, others_ = 0;
  OperatorCost cost_;
  Tensors cast_from_;
};
}  // namespace optrush
