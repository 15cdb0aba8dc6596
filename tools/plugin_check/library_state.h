#pragma once
#include <cstdint>
#include <vector>

namespace optrush {
/// Saves process-wide settings of LibTorch that plugins may change (precision of matrix products, choice of
/// attention kernels, memory of CPU tensors) and restores them at the end, so that stacks in one process do
/// not affect each other.
class LibraryState {
 public:
  LibraryState();
  ~LibraryState();
  LibraryState(const LibraryState&) = delete;
  LibraryState& operator=(const LibraryState&) = delete;

 private:
  bool tf32_matmul_, tf32_convolution_;
  bool flash_, efficient_, cudnn_, math_;
  std::vector<int64_t> order_;  ///< order in which attention kernels are tried
};

/// Notices whether anything draws from a generator of LibTorch while it lives, on any thread.
class DrawObserver {
 public:
  DrawObserver();
  ~DrawObserver();
  DrawObserver(const DrawObserver&) = delete;
  DrawObserver& operator=(const DrawObserver&) = delete;
  bool drew() const;

 private:
  unsigned long handle_;
};
}  // namespace optrush
