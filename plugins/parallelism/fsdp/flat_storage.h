#pragma once
#include <string>

#include "optrush/tensor.h"

namespace optrush::fsdp {
/// Frees the memory of a tensor that is not read again. A thread of the backend may hold the tensor for some
/// time after completion.
void free_memory(const Tensor&);

/// A flat tensor whose memory is allocated and freed while views of it persist: autograd leaves and saved
/// tensors read the memory that exists at the time.
class FlatStorage {
 public:
  /// Has no memory at first. `unit`: the unit that needs it, which the error of a read outside of it names.
  FlatStorage(int64_t size, const at::TensorOptions& options, const std::string& unit = "");
  FlatStorage(FlatStorage&&) = default;

  /// A separate tensor object over the elements from `at` on. It may be made while there is no memory.
  Tensor view(int64_t at, const std::vector<int64_t>& shape) const;
  void allocate();
  void free();
  bool allocated() const;
  /// The whole tensor, for writing. Autograd does not see the writes, because they restore the values that it
  /// saw.
  Tensor whole() const;
  /// The values have changed: tensors derived from the views are outdated.
  void renew() const;

 private:
  Tensor flat_;
  int64_t size_;
};
}  // namespace optrush::fsdp
