#include "simulated/caching_allocator.h"

#include <c10/core/AllocatorConfig.h>

#include <iterator>

namespace optrush::simulated {
namespace {
using c10::CachingAllocator::kMinBlockSize;
using c10::CachingAllocator::kMinLargeAlloc;
using c10::CachingAllocator::kRoundLarge;
using c10::CachingAllocator::kSmallBuffer;
using c10::CachingAllocator::kSmallSize;

/// Distance of segments, so that blocks of two segments are never neighbours.
constexpr int64_t kAddresses = int64_t{1} << 44;

int64_t rounded(int64_t bytes, size_t unit) {
  const auto step = static_cast<int64_t>(unit);
  return (bytes + step - 1) / step * step;
}

CachingAllocator::Settings settings_of_libtorch() {
  using c10::CachingAllocator::AcceleratorAllocatorConfig;
  return {static_cast<int64_t>(AcceleratorAllocatorConfig::large_segment_size()),
          AcceleratorAllocatorConfig::use_expandable_segments()};
}
}  // namespace

CachingAllocator::CachingAllocator() : CachingAllocator(settings_of_libtorch()) {}

void CachingAllocator::set_free(Blocks::iterator at, bool free) {
  auto& [address, block] = *at;
  BySize& list = free_[block.small ? 1 : 0];
  const std::tuple key(block.stream, block.size, address);
  if (free)
    list.insert(key);
  else
    list.erase(key);
  block.free = free;
}

CachingAllocator::Blocks::iterator CachingAllocator::find_free(int64_t bytes, int64_t stream, bool small) {
  const BySize& list = free_[small ? 1 : 0];
  const auto found = list.lower_bound({stream, bytes, 0});
  if (found == list.end() || std::get<0>(*found) != stream) return blocks_.end();
  return blocks_.find(std::get<2>(*found));
}

CachingAllocator::Blocks::iterator CachingAllocator::new_segment(int64_t size, int64_t stream, bool small) {
  const int64_t address = next_segment_;
  next_segment_ += kAddresses;
  reserved_ += size;
  const auto made = blocks_.emplace(address, Block{size, stream, address, small, false}).first;
  set_free(made, true);
  return made;
}

CachingAllocator::Blocks::iterator CachingAllocator::take_segment(int64_t bytes, int64_t stream, bool small) {
  int64_t size = rounded(bytes, kRoundLarge);
  if (small)
    size = kSmallBuffer;
  else if (bytes < static_cast<int64_t>(kMinLargeAlloc))
    size = settings_.large_segment;
  return new_segment(size, stream, small);
}

CachingAllocator::Blocks::iterator CachingAllocator::grow_segment(int64_t bytes, int64_t stream, bool small) {
  const int64_t page = small ? static_cast<int64_t>(kSmallBuffer) : settings_.large_segment;
  const auto known = expandable_.find({stream, small});
  if (known == expandable_.end()) {
    const auto made = new_segment(rounded(bytes, static_cast<size_t>(page)), stream, small);
    expandable_[{stream, small}] = made->first;
    return made;
  }
  auto last = std::prev(blocks_.lower_bound(known->second + kAddresses));
  const int64_t there = last->second.free ? last->second.size : 0;
  const int64_t more = rounded(bytes - there, static_cast<size_t>(page));
  reserved_ += more;
  if (there > 0) {
    set_free(last, false);
    last->second.size += more;
  } else {
    const int64_t address = last->first + last->second.size;
    last = blocks_.emplace(address, Block{more, stream, known->second, small, false}).first;
  }
  set_free(last, true);
  return last;
}

bool CachingAllocator::worth_splitting(int64_t rest, bool small) const {
  return small || settings_.expandable ? rest >= static_cast<int64_t>(kMinBlockSize)
                                       : rest > static_cast<int64_t>(kSmallSize);
}

int64_t CachingAllocator::allocate(int64_t bytes, int64_t stream) {
  const int64_t size = rounded(bytes, kMinBlockSize);
  const bool small = size <= static_cast<int64_t>(kSmallSize);
  auto block = find_free(size, stream, small);
  if (block == blocks_.end())
    block = settings_.expandable ? grow_segment(size, stream, small) : take_segment(size, stream, small);
  set_free(block, false);
  if (const int64_t rest = block->second.size - size; worth_splitting(rest, small)) {
    Block other = block->second;
    other.size = rest;
    block->second.size = size;
    set_free(blocks_.emplace(block->first + size, other).first, true);
  }
  allocated_ += block->second.size;
  return block->first;
}

void CachingAllocator::release(int64_t address) {
  auto block = blocks_.find(address);
  allocated_ -= block->second.size;
  const auto joins = [&](Blocks::iterator other) {
    return other->second.free && other->second.segment == block->second.segment;
  };
  if (const auto next = std::next(block); next != blocks_.end() && joins(next)) {
    set_free(next, false);
    block->second.size += next->second.size;
    blocks_.erase(next);
  }
  if (block != blocks_.begin()) {
    if (const auto before = std::prev(block); joins(before)) {
      set_free(before, false);
      before->second.size += block->second.size;
      blocks_.erase(block);
      block = before;
    }
  }
  set_free(block, true);
}
}  // namespace optrush::simulated
