#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace optrush::simulated {
/// A model of the memory that LibTorch's caching allocator takes from CUDA (c10/cuda/CUDACachingAllocator).
///
/// Requests are rounded up to 512 bytes. A request of at most 1 MiB gets a part of a 2 MiB segment, one below
/// 10 MiB a part of a 20 MiB segment, and a larger one a segment of its size rounded up to 2 MiB. The
/// smallest free block that fits is split if enough is left, and free neighbours in a segment merge. Segments
/// are kept, so their sum is the reserved memory. A block is reused only on its stream. With expandable
/// segments there is one growing segment per stream and kind. Not modelled: a full device, where LibTorch
/// returns free segments and tries again.
class CachingAllocator {
 public:
  struct Settings {
    int64_t large_segment = int64_t{20} << 20;
    bool expandable = false;
  };
  explicit CachingAllocator(Settings settings) : settings_(settings) {}
  /// Settings from PYTORCH_ALLOC_CONF.
  CachingAllocator();

  /// Allocates a block for `bytes` > 0. Addresses are not those of a real device.
  int64_t allocate(int64_t bytes, int64_t stream);
  void release(int64_t address);
  int64_t size_of(int64_t address) const { return blocks_.at(address).size; }
  /// Bytes of blocks in use (LibTorch's allocated_bytes).
  int64_t allocated() const { return allocated_; }
  /// Bytes of all segments (LibTorch's reserved_bytes).
  int64_t reserved() const { return reserved_; }

 private:
  struct Block {
    int64_t size = 0, stream = 0;
    int64_t segment = 0;  ///< start address of its segment
    bool small = false, free = false;
  };
  using Blocks = std::map<int64_t, Block>;                         ///< blocks by address
  using BySize = std::set<std::tuple<int64_t, int64_t, int64_t>>;  ///< stream, size, address

  Blocks::iterator find_free(int64_t bytes, int64_t stream, bool small);
  Blocks::iterator new_segment(int64_t size, int64_t stream, bool small);
  Blocks::iterator take_segment(int64_t bytes, int64_t stream, bool small);
  Blocks::iterator grow_segment(int64_t bytes, int64_t stream, bool small);
  void set_free(Blocks::iterator, bool free);
  bool worth_splitting(int64_t rest, bool small) const;

  Settings settings_;
  Blocks blocks_;
  BySize free_[2];                                          ///< free large and small blocks
  std::map<std::pair<int64_t, bool>, int64_t> expandable_;  ///< expandable segment by (stream, kind)
  int64_t next_segment_ = 0, allocated_ = 0, reserved_ = 0;
};
}  // namespace optrush::simulated
