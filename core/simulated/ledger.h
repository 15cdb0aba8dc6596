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
/// The memory of the device since it was opened.
class Ledger {
 public:
  explicit Ledger(const Form&);

  /// Allocates a block. Returns its address in the form of a GPU, the key for its release.
  int64_t take(int64_t bytes, int64_t stream);
  void give_back(int64_t bytes, int64_t address);
  /// A product of matrices runs on this thread and stream: cuBLAS's handle of the thread needs a workspace
  /// there, which stays.
  void multiply(int64_t stream);
  /// Pinned memory of the host, which in the form of a CPU is the same memory.
  void pin(int64_t bytes);
  void unpin(int64_t bytes);

  Memory now() const;
  Memory peak() const;
  int64_t reserved() const;
  int64_t peak_pinned() const;
  void reset_peak();

 private:
  void changed();

  mutable std::mutex mutex_;
  std::optional<CachingAllocator> blocks_;  ///< in the form of a GPU
  std::set<std::pair<std::thread::id, int64_t>> handles_;
  int64_t workspace_ = 0;  ///< bytes of one
  int64_t pinned_ = 0, peak_pinned_ = 0;
  Memory now_, peak_;
};
}  // namespace optrush::simulated
