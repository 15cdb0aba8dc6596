#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "simulated/caching_allocator.h"
#include "simulated/device.h"

namespace optrush::simulated {
/// Counts the memory of the device since it was opened.
class Ledger {
 public:
  explicit Ledger(const Form&);

  /// Allocates a block. Returns its address on a simulated GPU, which give_back() needs.
  int64_t take(int64_t bytes, int64_t stream);
  void give_back(int64_t bytes, int64_t address);
  /// Notes a matrix product on this thread and stream. Its cuBLAS handle then keeps a workspace.
  void multiply(int64_t stream);
  /// Pinned host memory. On a simulated CPU it is ordinary memory of the device.
  void pin(int64_t bytes);
  void unpin(int64_t bytes);

  struct Use {
    Memory now, peak;
    int64_t reserved, peak_pinned;
  };
  Use use() const;
  void reset_peak();

 private:
  void changed();

  mutable std::mutex mutex_;
  std::optional<CachingAllocator> blocks_;  ///< only for a simulated GPU
  std::set<std::pair<std::thread::id, int64_t>> handles_;
  int64_t workspace_ = 0;  ///< bytes of one workspace
  int64_t pinned_ = 0, peak_pinned_ = 0;
  Memory now_, peak_;
};
}  // namespace optrush::simulated
