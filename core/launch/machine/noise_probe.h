#pragma once
#include <cstdint>
#include <vector>

namespace optrush {
/// A fixed piece of arithmetic and memory traffic, repeated on every core that this process may use: on a
/// quiet machine each piece takes as long as any other. Nothing else of the experiment may run meanwhile.
class NoiseProbe {
 public:
  /// Finds the amount of work that takes about `piece_s`.
  explicit NoiseProbe(int64_t threads, double piece_s = 0.01);

  /// Nanoseconds for a unit of work of each piece, over all threads; at least one piece each.
  std::vector<double> measure(double seconds) const;

 private:
  int64_t threads_, units_ = 16;
};
}  // namespace optrush
