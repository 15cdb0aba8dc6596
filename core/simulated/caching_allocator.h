#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace optrush::simulated {
/// What LibTorch's caching allocator of CUDA (c10/cuda/CUDACachingAllocator) would take from the driver for a
/// sequence of allocations, by sizes alone. Requests are rounded to 512 bytes. One of at most 1 MiB gets a
/// part of a segment of 2 MiB; one below 10 MiB part of a segment of 20 MiB; a larger one a segment of its
/// size, rounded to 2 MiB. The smallest free block that fits is split, where enough is left over, and free
/// neighbours of a segment merge. Segments stay, so their sum is what is reserved. A block is used again on
/// its stream only. With expandable segments there is one segment for each stream and kind, which grows.
/// Not modelled: what happens when the device is full, where LibTorch gives free segments back and tries
/// again.
class CachingAllocator {
 public:
  struct Settings {
    int64_t large_segment = int64_t{20} << 20;
    bool expandable = false;
  };
  explicit CachingAllocator(Settings settings) : settings_(settings) {}
  /// By PYTORCH_ALLOC_CONF, as LibTorch reads it.
  CachingAllocator();

  /// The address of a block for `bytes` > 0. Addresses are not those of a device.
  int64_t allocate(int64_t bytes, int64_t stream);
  void release(int64_t address);
  int64_t size_of(int64_t address) const { return blocks_.at(address).size; }
  /// Bytes in blocks that are in use: LibTorch's allocated_bytes.
  int64_t allocated() const { return allocated_; }
  /// Bytes of all segments: LibTorch's reserved_bytes.
  int64_t reserved() const { return reserved_; }

 private:
  struct Block {
    int64_t size = 0, stream = 0;
    int64_t segment = 0;  ///< where the segment begins
    bool small = false, free = false;
  };
  using Blocks = std::map<int64_t, Block>;                         ///< by address
  using BySize = std::set<std::tuple<int64_t, int64_t, int64_t>>;  ///< stream, size, address

  Blocks::iterator find_free(int64_t bytes, int64_t stream, bool small);
  Blocks::iterator take_segment(int64_t bytes, int64_t stream, bool small);
  Blocks::iterator grow_segment(int64_t bytes, int64_t stream, bool small);
  void set_free(Blocks::iterator, bool free);
  bool worth_splitting(int64_t rest, bool small) const;

  Settings settings_;
  Blocks blocks_;
  BySize free_[2];                                          ///< large ones, small ones
  std::map<std::pair<int64_t, bool>, int64_t> expandable_;  ///< by stream and kind: the segment
  int64_t next_segment_ = 0, allocated_ = 0, reserved_ = 0;
};
}  // namespace optrush::simulated
