#pragma once
#include <cstdint>
#include <vector>

/// The record of one thread of the host.
namespace optrush::testing {
enum class AccessKind : uint8_t { read, write, atomic };

struct Access {
  uint64_t place;  ///< hash of the calls that lead to it
  uintptr_t address;
  uint32_t bytes, block;
  AccessKind kind;
};

struct ThreadRecord {
  std::vector<Access> accesses;
  uint64_t path = 0;              ///< hash of the current calls
  std::vector<uint64_t> callers;  ///< `path` before each of them
};

/// Records the accesses of this thread; null: none.
void record_into(ThreadRecord*);
}  // namespace optrush::testing
