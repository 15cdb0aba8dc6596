#include "device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <vector>

#include "ledger.h"
#include "settings.h"

namespace fake_cuda {
namespace {
constexpr uint64_t kBase = 0x380000000000, kRange = 1ULL << 40, kMostDevices = 8,
                   kShadow = kMostDevices * kRange;
constexpr size_t kGranularity = 2 << 20;
constexpr size_t kMaxKnownDeviceBytes = 1 << 20;  // larger blocks are only counted
constexpr size_t kMaxReadBytes = 256 << 20;       // largest copy to the host; a larger one is only counted
constexpr size_t kContextBytes = 560 << 20;       // memory of a context and its libraries

struct Heap {
  uint64_t next = 0;
  std::map<uint64_t, size_t> live, holes;
  size_t used = kContextBytes, peak = kContextBytes;
};

struct Memory {
  std::vector<Heap> heaps;
  std::map<uint64_t, size_t> known;  // ranges that copies and memsets wrote since the last kernel
  uint32_t reads = 0;

  Memory() : heaps(kMostDevices) {
    for (size_t i = 0; i < heaps.size(); ++i) heaps[i].next = kBase + i * kRange;
    reserve(kBase, PROT_NONE);
    reserve(kBase + kShadow, PROT_READ | PROT_WRITE);
  }

 private:
  static void reserve(uint64_t at, int protection) {
    const void* wanted = reinterpret_cast<void*>(at);
    void* got = mmap(const_cast<void*>(wanted), kShadow, protection,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != wanted) {
      std::fprintf(stderr, "fake_cuda: no room for a device's addresses at %llx\n",
                   static_cast<unsigned long long>(at));
      std::abort();
    }
    madvise(got, kShadow, MADV_DONTDUMP);
  }
};
Memory& memory() {
  static auto* const memory = new Memory;
  return *memory;
}
Heap& heap(int device) { return memory().heaps.at(static_cast<size_t>(device)); }
void* shadow_of(uint64_t address) { return reinterpret_cast<void*>(address + kShadow); }
size_t rounded(size_t bytes) { return (bytes + kGranularity - 1) / kGranularity * kGranularity; }

/// Known ranges of a block.
bool is_known(uint64_t from, size_t bytes) {
  auto it = memory().known.upper_bound(from);
  if (it == memory().known.begin()) return false;
  --it;
  return from + bytes <= it->first + it->second;
}
/// Merges the range with adjacent ones, because a tensor may be copied in several pieces.
void mark_known(uint64_t at, size_t bytes) {
  auto& known = memory().known;
  uint64_t end = at + bytes;
  auto it = known.upper_bound(at);
  if (it != known.begin() && std::prev(it)->first + std::prev(it)->second >= at) {
    --it;
    at = it->first;
  }
  while (it != known.end() && it->first <= end) {
    end = std::max(end, it->first + it->second);
    it = known.erase(it);
  }
  known[at] = end - at;
}
}  // namespace

bool take_bytes(int device, size_t bytes) {
  Heap& h = heap(device);
  if (h.used + bytes > Settings::get().memory_bytes) return false;
  h.used += bytes;
  h.peak = std::max(h.peak, h.used);
  return true;
}
void give_bytes(int device, size_t bytes) { heap(device).used -= bytes; }

uint64_t reserve_addresses(int device, size_t bytes) {
  Heap& h = heap(device);
  bytes = rounded(bytes);
  const auto hole = std::ranges::find(h.holes, bytes, [](const auto& entry) { return entry.second; });
  if (hole != h.holes.end()) {
    const uint64_t address = hole->first;
    h.holes.erase(hole);
    return address;
  }
  const uint64_t address = h.next;
  if (address + bytes > kBase + static_cast<uint64_t>(device + 1) * kRange) return 0;
  h.next += bytes + kGranularity;  // a gap, so an overrun hits no allocation
  return address;
}

void map_range(uint64_t address, size_t bytes) { heap(device_of(address)).live[address] = bytes; }
void unmap_range(uint64_t address, size_t bytes) {
  heap(device_of(address)).live.erase(address);
  madvise(shadow_of(address), bytes, MADV_DONTNEED);
}

uint64_t allocate(int device, size_t bytes) {
  const Lock lock(mutex());
  bytes = rounded(bytes);
  if (!take_bytes(device, bytes)) return 0;
  const uint64_t address = reserve_addresses(device, bytes);
  if (address == 0) return 0;
  ++counts().allocations;
  map_range(address, bytes);
  trace("allocate " + std::to_string(bytes));
  return address;
}

bool release(uint64_t address) {
  const Lock lock(mutex());
  if (device_of(address) < 0) return false;
  Heap& h = heap(device_of(address));
  const auto it = h.live.find(address);
  if (it == h.live.end()) return false;
  const size_t bytes = it->second;
  ++counts().frees;
  give_bytes(device_of(address), bytes);
  unmap_range(address, bytes);
  forget(address, bytes);
  h.holes[address] = bytes;
  return true;
}

int device_of(uint64_t address) {
  return address >= kBase && address < kBase + kShadow ? static_cast<int>((address - kBase) / kRange) : -1;
}

Allocation allocation_at(uint64_t address) {
  const Lock lock(mutex());
  if (device_of(address) < 0) return {};
  const auto& live = heap(device_of(address)).live;
  auto it = live.upper_bound(address);
  if (it == live.begin()) return {};
  --it;
  if (address >= it->first + it->second) return {};
  // Adjacent mapped pages are one range. Allocations have a gap between them.
  uint64_t begin = it->first, end = it->first + it->second;
  for (auto next = std::next(it); next != live.end() && next->first == end; ++next) end += next->second;
  while (it != live.begin() && std::prev(it)->first + std::prev(it)->second == begin) begin = (--it)->first;
  return {begin, end - begin};
}

MemoryInfo memory_info(int device) {
  const Lock lock(mutex());
  const size_t total = Settings::get().memory_bytes;
  return {total - heap(device).used, total};
}

size_t peak_bytes() {
  size_t sum = 0;
  for (int i = 0; i < Settings::get().devices; ++i) sum += heap(i).peak;
  return sum;
}

void write_shadow(uint64_t to, const void* from, size_t bytes) {
  if (bytes > Settings::get().kept_bytes) return forget(to, bytes);
  std::memcpy(shadow_of(to), from, bytes);
  mark_known(to, bytes);
}

void fill_shadow(uint64_t to, uint32_t value, size_t width, size_t count) {
  const size_t bytes = width * count;
  if (bytes > kMaxKnownDeviceBytes) {
    if (value != 0) return;
    // Whole pages that are released read as zero.
    const uint64_t first = (to + 4095) & ~4095ULL, last = (to + bytes) & ~4095ULL;
    madvise(shadow_of(first), last - first, MADV_DONTNEED);
    std::memset(shadow_of(to), 0, first - to);
    std::memset(shadow_of(last), 0, to + bytes - last);
  } else {
    for (size_t i = 0; i < count; ++i)
      std::memcpy(static_cast<char*>(shadow_of(to)) + i * width, &value, width);
  }
  mark_known(to, bytes);
}

void copy_shadow(uint64_t to, uint64_t from, size_t bytes) {
  if (bytes > kMaxKnownDeviceBytes || !is_known(from, bytes)) return;
  std::memmove(shadow_of(to), shadow_of(from), bytes);
  mark_known(to, bytes);
}

void read_shadow(void* to, uint64_t from, size_t bytes) {
  if (bytes > kMaxReadBytes) return;
  if (is_known(from, bytes) || Settings::get().unknown == 0) {
    std::memcpy(to, shadow_of(from), bytes);
    return;
  }
  // A number for each usual width. The last bits change, so curves are not constant.
  uint32_t word = 0;
  const float value = Settings::get().unknown;
  std::memcpy(&word, &value, sizeof word);
  word += memory().reads++ % 97;
  if (bytes == 1) {
    std::memset(to, 1, 1);
  } else if (bytes == 2) {
    const auto half = static_cast<uint16_t>(word >> 16);
    std::memcpy(to, &half, sizeof half);
  } else if (bytes == 8) {
    float single = 0;
    std::memcpy(&single, &word, sizeof single);
    const double wide = single;
    std::memcpy(to, &wide, sizeof wide);
  } else {
    for (size_t i = 0; i + 4 <= bytes; i += 4) std::memcpy(static_cast<char*>(to) + i, &word, 4);
  }
}

bool read_known(void* to, uint64_t from, size_t bytes) {
  if (!is_known(from, bytes)) return false;
  std::memcpy(to, shadow_of(from), bytes);
  return true;
}

void forget(uint64_t from, size_t bytes) {
  auto& known = memory().known;
  const uint64_t to = from + bytes;
  auto it = known.upper_bound(from);
  if (it != known.begin() && std::prev(it)->first + std::prev(it)->second > from) --it;
  while (it != known.end() && it->first < to) {
    const uint64_t first = it->first, end = first + it->second;
    it = known.erase(it);
    if (first < from) known[first] = from - first;
    if (end > to) known[to] = end - to;
  }
}
void forget_values() { memory().known.clear(); }
}  // namespace fake_cuda
