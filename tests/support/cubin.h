#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace optrush::testing {
/// The resources of a kernel, from its machine code.
struct KernelResources {
  int registers = 0;
  int local_bytes = 0;  ///< stack of a thread: spilled registers or local arrays
};

/// The resources in a cubin with one kernel. A cubin is an ELF file. Its section .nv.info is a list of
/// (format, attribute, size, values). Format 4 has values: the index of a symbol, and its value.
inline KernelResources resources_of(const std::string& image) {
  const auto read = [&]<class T>(size_t at, T value) {
    if (at + sizeof(T) > image.size()) throw std::runtime_error("the cubin is cut short");
    std::memcpy(&value, image.data() + at, sizeof(T));
    return value;
  };
  constexpr uint32_t kInfo = 0x70000000;  // SHT_CUDA_INFO
  constexpr uint8_t kValues = 4, kRegisters = 0x2f, kFrame = 0x11;
  const auto sections = read(0x28, uint64_t{});
  const auto size = read(0x3A, uint16_t{}), count = read(0x3C, uint16_t{});
  KernelResources found;
  for (uint16_t i = 0; i < count; ++i) {
    const size_t header = sections + size_t{size} * i;
    if (read(header + 4, uint32_t{}) != kInfo) continue;
    const auto begin = read(header + 24, uint64_t{}), end = begin + read(header + 32, uint64_t{});
    for (size_t at = begin; at + 4 <= end;) {
      const auto format = read(at, uint8_t{}), attribute = read(at + 1, uint8_t{});
      const auto bytes = read(at + 2, uint16_t{});
      if (format == kValues && attribute == kRegisters)
        found.registers = std::max(found.registers, static_cast<int>(read(at + 8, uint32_t{})));
      if (format == kValues && attribute == kFrame)
        found.local_bytes = std::max(found.local_bytes, static_cast<int>(read(at + 8, uint32_t{})));
      at += 4 + (format == kValues ? bytes : 0);
    }
  }
  if (found.registers == 0) throw std::runtime_error("the cubin says nothing of registers");
  return found;
}
}  // namespace optrush::testing
