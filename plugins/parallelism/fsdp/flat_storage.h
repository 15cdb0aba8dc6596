#pragma once
#include <string>

#include "optrush/tensor.h"

namespace optrush::fsdp {
/// For a tensor that is not read again: a thread of the backend may hold it for a while after completion.
void free_memory(const Tensor&);

/// A flat tensor whose memory comes and goes, while views of it stay what they are: autograd leaves and saved
/// tensors see the memory that is there when they are read.
class FlatStorage {
 public:
  /// Without memory. `unit`: for which it comes, for errors of who reads it elsewhere.
  FlatStorage(int64_t size, const at::TensorOptions& options, const std::string& unit = "");
  FlatStorage(FlatStorage&&) = default;

  /// A tensor of its own over elements from `at` on. It may be made while there is no memory.
  Tensor view(int64_t at, const std::vector<int64_t>& shape) const;
  void allocate();
  void free();
  bool allocated() const;
  /// All of it, to write to: autograd does not see the writes, for the values are those that it saw.
  Tensor whole() const;
  /// Values differ from those that were there: what was derived from the views is old.
  void renew() const;

 private:
  Tensor flat_;
  int64_t size_;
};
}  // namespace optrush::fsdp
