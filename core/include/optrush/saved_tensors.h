#pragma once
#include <functional>

#include "optrush/tensor.h"

namespace optrush {
/// What stands in for a tensor that autograd saves. It lives as long as the saved tensor would; what its
/// functions hold goes with it.
struct PackedTensor {
  Tensor kept;  ///< held until the backward; may be undefined
  /// Gives the tensor back: the same sizes, strides, type and bits. Called in the backward, on a GPU on
  /// another thread; more than once where a graph is kept.
  std::function<Tensor(const Tensor& kept)> unpack;
};
/// Called without gradients for each tensor that autograd saves.
using PackTensor = std::function<PackedTensor(const Tensor&)>;

/// While it lives, tensors that autograd saves go through `pack`. Scopes nest: an outer one sees what the
/// inner one keeps, so offloading shows in what the host counts. Destroyed in reverse order of construction.
class SavedTensorScope {
 public:
  enum class Reach : uint8_t {
    thread,  ///< what this thread saves
    process  ///< what any thread saves, outside of every scope of a thread
  };
  explicit SavedTensorScope(PackTensor pack, Reach reach = Reach::thread);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  Reach reach_;
};
}  // namespace optrush
