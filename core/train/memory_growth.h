#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace optrush {
/// Records the bytes of tensors after each timed step and finds steady growth. Such a leak is too small to
/// change a peak, but ends a long run.
class MemoryGrowth {
 public:
  void after_step(int64_t bytes) { bytes_.push_back(bytes); }
  /// Average growth per step in bytes; none if memory does not keep growing. With eight steps or more, every
  /// quarter must be above the one before; with fewer, every step must add the same amount.
  std::optional<double> per_step() const;

 private:
  std::vector<int64_t> bytes_;
};
}  // namespace optrush
