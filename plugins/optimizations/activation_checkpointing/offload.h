#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "optrush/saved_tensors.h"

namespace optrush::checkpointing {
class HostCopy;

/// Moves what autograd saves to host memory (pinned, on a stream beside the computing one, where the device
/// is a GPU) and back when the backward comes to it, the next ones to come already under way. Each storage
/// moves once, however many saved tensors are views of it. Computing does not run away from the bus: it waits
/// for the copies of two blocks ago, so no more than these are in the device's memory on their way out.
class Offload {
 public:
  /// Before the forward of each block.
  void begin_block();
  PackedTensor pack(const Tensor& tensor);
  /// Bytes that were moved to the host so far.
  int64_t moved() const { return moved_; }

 private:
  std::shared_ptr<HostCopy> copy_of(const Tensor& tensor);

  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  ///< keeps its address from being another's
    std::weak_ptr<HostCopy> copy;
  };
  static constexpr size_t kBlocksInFlight = 2;
  std::vector<Entry> copies_;                                   ///< of the present forward
  std::deque<std::vector<std::weak_ptr<HostCopy>>> in_flight_;  ///< by block
  std::weak_ptr<HostCopy> last_;
  int64_t moved_ = 0;
};
}  // namespace optrush::checkpointing
