#pragma once
#include <cstddef>

namespace optrush::cpu_allocator {
/// A mapping of the system's pages, given back when it is destroyed.
class Pages {
 public:
  /// No memory if the system refuses. With `huge`, it asks the kernel for pages of 2 MiB.
  Pages(size_t bytes, bool huge) noexcept;
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&&) = delete;

  char* begin() const { return begin_; }
  size_t bytes() const { return bytes_; }

 private:
  char* begin_ = nullptr;
  size_t bytes_ = 0;
};
}  // namespace optrush::cpu_allocator
