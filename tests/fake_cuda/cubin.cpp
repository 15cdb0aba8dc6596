#include "cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "work.h"

namespace fake_cuda {
namespace {
constexpr unsigned kMachine = 190;  // EM_CUDA
constexpr unsigned kMaxThreads = 0x05, kParameter = 0x17, kSizedValue = 4;
/// Bytes of shared memory that the system reserves in each kernel's section from sm_90 on. Limits exclude
/// them.
constexpr unsigned kReserved = 1024, kFirstWithReserved = 90;

template <class T>
T read(const char* at) {
  T value{};
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// The architecture of a cubin: 90 for sm_90.
unsigned architecture_of(const Elf64_Ehdr& header) {
  return (header.e_ident[EI_ABIVERSION] >= 8 ? header.e_flags >> 8 : header.e_flags) & 0xff;
}

/// A section .nv.info.<kernel>: records of a format, an attribute, and a value or its size.
void read_info(const char* p, const char* end, Kernel& kernel) {
  std::map<unsigned, Kernel::Parameter> parameters;
  while (p + 4 <= end) {
    const auto format = static_cast<unsigned char>(p[0]), attribute = static_cast<unsigned char>(p[1]);
    const auto size = read<uint16_t>(p + 2);
    p += 4;
    if (format != kSizedValue) continue;
    if (attribute == kParameter &&
        size >= 12)  // index, ordinal, offset, then the size above 18 bits of flags
      parameters[read<uint16_t>(p + 4)] = {read<uint16_t>(p + 6), read<uint32_t>(p + 8) >> 18};
    if (attribute == kMaxThreads && size >= 12) {
      const uint32_t threads =
          read<uint32_t>(p) * std::max(1U, read<uint32_t>(p + 4)) * std::max(1U, read<uint32_t>(p + 8));
      if (threads > 0) kernel.max_threads = static_cast<int>(threads);
    }
    p += size;
  }
  for (const auto& [ordinal, parameter] : parameters) kernel.parameters.push_back(parameter);
  kernel.parameters_known = true;
}
}  // namespace

std::map<std::string, Kernel*> read_cubin(const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) != 0) return {};
  const auto header = read<Elf64_Ehdr>(bytes);
  if (header.e_machine != kMachine) return {};
  std::map<std::string, Kernel*> kernels;
  const auto section = [&](int i) {
    return read<Elf64_Shdr>(bytes + header.e_shoff + static_cast<size_t>(i) * header.e_shentsize);
  };
  const char* names = bytes + section(header.e_shstrndx).sh_offset;
  /// The name of section i after the prefix, or nothing.
  const auto kernel_named = [&](int i, std::string_view prefix) -> std::string {
    const std::string_view name = names + section(i).sh_name;
    return name.starts_with(prefix) ? std::string(name.substr(prefix.size())) : std::string();
  };
  for (int i = 0; i < header.e_shnum; ++i)
    if (const std::string name = kernel_named(i, ".text."); !name.empty()) kernels[name] = new_kernel(name);
  const uint64_t reserved = architecture_of(header) >= kFirstWithReserved ? kReserved : 0;
  for (int i = 0; i < header.e_shnum; ++i) {
    if (const auto it = kernels.find(kernel_named(i, ".nv.shared.")); it != kernels.end())
      it->second->static_shared =
          static_cast<int>(section(i).sh_size - std::min<uint64_t>(section(i).sh_size, reserved));
    if (const auto it = kernels.find(kernel_named(i, ".nv.info.")); it != kernels.end())
      read_info(bytes + section(i).sh_offset, bytes + section(i).sh_offset + section(i).sh_size, *it->second);
  }
  return kernels;
}
}  // namespace fake_cuda
