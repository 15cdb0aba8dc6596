#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "optrush/advanced/saved_tensors.h"

namespace optrush::checkpointing {
class HostCopy;

/// Moves tensors that autograd saves to host memory, and back ahead of their backward. On a GPU the memory is
/// pinned and the copies run on a separate stream. Each storage moves once, for all saved tensors that are
/// views of it. The computing stream waits for the copies of two blocks ago, which bounds the device memory
/// of pending copies.
class Offload {
 public:
  /// To be called before the forward of each block.
  void begin_block();
  PackedTensor pack(const Tensor& tensor);
  /// Bytes that were moved to the host so far.
  int64_t moved() const { return moved_; }

 private:
  std::shared_ptr<HostCopy> copy_of(const Tensor& tensor);

  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  ///< no other storage can get its address
    std::weak_ptr<HostCopy> copy;
  };
  static constexpr size_t kBlocksInFlight = 2;
  std::vector<Entry> copies_;                                   ///< of the present forward
  std::deque<std::vector<std::weak_ptr<HostCopy>>> in_flight_;  ///< by block
  std::weak_ptr<HostCopy> last_;
  int64_t moved_ = 0;
};
}  // namespace optrush::checkpointing
