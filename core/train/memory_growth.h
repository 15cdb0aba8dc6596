#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace optrush {
/// Bytes of tensors that are there after each timed step, and whether they keep growing: a leak is too small
/// to see in a peak, and ends a long run.
class MemoryGrowth {
 public:
  void after_step(int64_t bytes) { bytes_.push_back(bytes); }
  /// Bytes that a step leaves behind on average; none where memory does not keep growing. Of eight steps or
  /// more, every quarter has to lie above the one before it; of fewer, every step has to add as much.
  std::optional<double> per_step() const;

 private:
  std::vector<int64_t> bytes_;
};
}  // namespace optrush
