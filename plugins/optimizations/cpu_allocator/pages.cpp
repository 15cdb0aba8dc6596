#include "pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

namespace optrush::cpu_allocator {
namespace {
constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
}  // namespace

Pages::Pages(size_t bytes, bool huge) noexcept {
  const size_t wanted = round_up(bytes, kPage);
  // Huge pages need their alignment; the memory before and after it is given back at once.
  const size_t slack = huge ? kHugePage : 0;
  if (wanted + slack < bytes) return;
  void* const mapped =
      mmap(nullptr, wanted + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return;
  begin_ = static_cast<char*>(mapped);
  bytes_ = wanted;
  if (!huge) return;
  const auto address = reinterpret_cast<uintptr_t>(begin_);
  const size_t before = round_up(address, kHugePage) - address;
  if (before > 0) munmap(begin_, before);
  begin_ += before;
  if (slack > before) munmap(begin_ + wanted, slack - before);
  madvise(begin_, wanted, MADV_HUGEPAGE);
}

Pages::~Pages() {
  if (begin_ != nullptr) munmap(begin_, bytes_);
}

Pages::Pages(Pages&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
}  // namespace optrush::cpu_allocator
