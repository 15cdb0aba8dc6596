#include "worker/resident_pages.h"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/descriptor.h"

namespace optrush {
namespace {
constexpr uint64_t kPresent = uint64_t{1} << 63;  // of an entry of pagemap: proc_pid_pagemap(5)

/// Whether each page from `begin` on is in memory; empty if the kernel does not report it.
std::vector<uint64_t> entries_of(int pagemap, uint64_t begin, uint64_t end, uint64_t page) {
  std::vector<uint64_t> entries((end - begin) / page);
  const size_t bytes = entries.size() * sizeof(uint64_t);
  const auto at = static_cast<off_t>(begin / page * sizeof(uint64_t));
  if (pread(pagemap, entries.data(), bytes, at) != static_cast<ssize_t>(bytes)) entries.clear();
  return entries;
}
}  // namespace

std::vector<std::span<const char>> resident_file_pages() {
  std::vector<std::span<const char>> ranges;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const Descriptor pagemap(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::ifstream maps("/proc/self/maps");
  // 7f1000-7f3000 r-xp 00001000 08:01 4711   /lib/libc.so.6
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0, end = 0;
    char readable = 0, writable = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %c%c", &begin, &end, &readable, &writable) != 4 ||
        readable != 'r' || writable == 'w' || line.find('/') == std::string::npos)
      continue;
    const auto entries = entries_of(pagemap.get(), begin, end, page);
    for (size_t i = 0; i < entries.size();) {
      size_t next = i;
      while (next < entries.size() && (entries[next] & kPresent) != 0) ++next;
      if (next > i)
        ranges.emplace_back(reinterpret_cast<const char*>(begin + i * page), (next - i) * page);  // NOLINT
      i = next + 1;
    }
  }
  return ranges;
}

void map_again(const std::vector<std::span<const char>>& ranges) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const auto& range : ranges)
    for (size_t at = 0; at < range.size(); at += page)
      static_cast<void>(*static_cast<const volatile char*>(&range[at]));
}
}  // namespace optrush
