#pragma once
#include <string>

#include "optrush/tensor.h"

namespace optrush::fsdp {
/// For a tensor that is not read again: a thread of the backend may hold it for some time after completion.
void free_memory(const Tensor&);

/// A flat tensor whose memory is allocated and freed while views of it persist: autograd leaves and saved
/// tensors read the memory that exists at the time.
class FlatStorage {
 public:
  /// Without memory. `unit`: the unit that needs it, for errors of reads elsewhere.
  FlatStorage(int64_t size, const at::TensorOptions& options, const std::string& unit = "");
  FlatStorage(FlatStorage&&) = default;

  /// A tensor of its own over elements from `at` on. It may be made while there is no memory.
  Tensor view(int64_t at, const std::vector<int64_t>& shape) const;
  void allocate();
  void free();
  bool allocated() const;
  /// All of it, to write to: autograd does not see the writes, for the values are those that it saw.
  Tensor whole() const;
  /// The values have changed: tensors derived from the views are outdated.
  void renew() const;

 private:
  Tensor flat_;
  int64_t size_;
};
}  // namespace optrush::fsdp
