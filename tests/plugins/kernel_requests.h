#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/memory_requests.h"

namespace optrush::testing {
/// Memory of zeros that starts where CUDA's allocator would let it start.
template <class T>
class Memory {
 public:
  explicit Memory(size_t count) : bytes_(count * sizeof(T)), raw_(bytes_ + kAlignment) {}
  T* data() {
    const auto address = reinterpret_cast<uintptr_t>(raw_.data());
    return reinterpret_cast<T*>((address + kAlignment - 1) / kAlignment * kAlignment);
  }
  NamedMemory named(const std::string& name) { return {name, data(), bytes_}; }

 private:
  static constexpr size_t kAlignment = 512;
  size_t bytes_;
  std::vector<char> raw_;
};

inline void expect_requests(const MemoryRequests& requests, const std::string& table) {
  EXPECT_EQ("\n" + table_of(requests), table);
}
}  // namespace optrush::testing
