#pragma once
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "optrush/advanced/machine.h"
#include "pages.h"
#include "size_classes.h"

namespace optrush::cpu_allocator {
/// Freed blocks wait in a list of their size class. The last freed block is handed out first, because it is
/// still in the cache. Memory returns to the system only if it refuses more, so a step that repeats faults no
/// page in.
class Pool final : public HostMemory {
 public:
  explicit Pool(bool huge_pages) : huge_pages_(huge_pages) {}

  void* allocate(size_t bytes) override;
  void release(void* block, size_t bytes) noexcept override;
  int64_t reserved() const { return reserved_; }
  int64_t peak_reserved() const override { return peak_reserved_; }
  void reset_peak() override { peak_reserved_ = reserved_.load(); }
  /// Gives the free large blocks back to the system.
  void trim();

 private:
  /// Smaller blocks are cut from chunks.
  static constexpr size_t kLarge = size_t{1} << 20, kChunk = size_t{16} << 20;
  /// In the memory of a free block.
  struct Free {
    Free* next;
  };
  struct alignas(64) List {
    std::mutex mutex;
    Free* first = nullptr;
  };

  void* cut(size_t bytes);
  void* map(size_t bytes);
  void reserve(const Pages&);

  bool huge_pages_;
  std::array<List, SizeClass::kCount> lists_;
  std::mutex chunks_mutex_, large_mutex_;
  std::vector<Pages> chunks_;
  size_t used_of_chunk_ = kChunk;
  std::map<void*, Pages> large_;  ///< by the block in it
  std::atomic<int64_t> reserved_{0}, peak_reserved_{0};
};
}  // namespace optrush::cpu_allocator
