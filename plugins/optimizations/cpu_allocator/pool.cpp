#include "pool.h"

#include <c10/util/Exception.h>

#include <new>

namespace optrush::cpu_allocator {
void* Pool::allocate(size_t bytes) {
  const SizeClass size = SizeClass::of(bytes);
  TORCH_CHECK_WITH(OutOfMemoryError, size.index < SizeClass::kCount,
                   "the CPU allocator does not support blocks of this size: you tried to allocate ", bytes,
                   " bytes");
  List& list = lists_[size.index];
  {
    const std::lock_guard lock(list.mutex);
    if (Free* const block = list.first) {
      list.first = block->next;
      return block;
    }
  }
  void* block = size.bytes < kLarge ? cut(size.bytes) : map(size.bytes);
  if (block == nullptr) {
    trim();
    block = size.bytes < kLarge ? cut(size.bytes) : map(size.bytes);
  }
  TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr,
                   "the CPU allocator is out of memory: you tried to allocate ", bytes, " bytes");
  return block;
}

void Pool::release(void* block, size_t bytes) noexcept {
  List& list = lists_[SizeClass::of(bytes).index];
  const std::lock_guard lock(list.mutex);
  list.first = new (block) Free{list.first};  // NOLINT(cppcoreguidelines-owning-memory): in place
}

void* Pool::cut(size_t bytes) {
  const std::lock_guard lock(chunks_mutex_);
  if (used_of_chunk_ + bytes > kChunk) {
    Pages chunk(kChunk, huge_pages_);
    if (chunk.begin() == nullptr) return nullptr;
    reserve(chunk);
    chunks_.push_back(std::move(chunk));
    used_of_chunk_ = 0;
  }
  char* const block = chunks_.back().begin() + used_of_chunk_;
  used_of_chunk_ += bytes;
  return block;
}

void* Pool::map(size_t bytes) {
  // Blocks begin at different cache lines: page-aligned blocks would compete for the same cache sets.
  constexpr size_t kLines = 32;
  Pages pages(bytes + kLines * SizeClass::kUnit, huge_pages_);
  if (pages.begin() == nullptr) return nullptr;
  reserve(pages);
  const std::lock_guard lock(large_mutex_);
  void* const block = pages.begin() + large_.size() % kLines * SizeClass::kUnit;
  large_.emplace(block, std::move(pages));
  return block;
}

void Pool::reserve(const Pages& pages) {
  const int64_t now = reserved_ += static_cast<int64_t>(pages.bytes());
  int64_t peak = peak_reserved_;
  while (now > peak && !peak_reserved_.compare_exchange_weak(peak, now)) {
  }
}

void Pool::trim() {
  for (size_t i = SizeClass::of(kLarge).index; i < lists_.size(); ++i) {
    List& list = lists_[i];
    const std::lock_guard lock(list.mutex);
    const std::lock_guard lock_large(large_mutex_);
    while (Free* const block = list.first) {
      list.first = block->next;
      const auto mapping = large_.find(block);
      reserved_ -= static_cast<int64_t>(mapping->second.bytes());
      large_.erase(mapping);
    }
  }
}
}  // namespace optrush::cpu_allocator
