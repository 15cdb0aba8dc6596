#pragma once
#include <cstdint>
#include <vector>

namespace optrush {
/// Keeps what a plugin may set in LibTorch for the whole process (precision of matmuls, choice of attention
/// kernels, where CPU tensors get their bytes) and sets it back when it ends: stacks that run one after the
/// other in one process do not see each other's settings.
class LibraryState {
 public:
  LibraryState();
  ~LibraryState();
  LibraryState(const LibraryState&) = delete;
  LibraryState& operator=(const LibraryState&) = delete;

 private:
  bool tf32_matmul_, tf32_convolution_;
  bool flash_, efficient_, cudnn_, math_;
  std::vector<int64_t> order_;  ///< in which attention kernels are tried
};
}  // namespace optrush
