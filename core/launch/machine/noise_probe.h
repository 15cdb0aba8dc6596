#pragma once
#include <cstdint>
#include <vector>

namespace optrush {
/// A fixed piece of arithmetic and memory traffic, repeated on every core that this process may use. On a
/// quiet machine all pieces take the same time. No run of the experiment may be active meanwhile.
class NoiseProbe {
 public:
  /// Finds the amount of work that takes about `piece_s`.
  explicit NoiseProbe(int64_t threads, double piece_s = 0.01);

  /// Nanoseconds per unit of work for each piece, over all threads; at least one piece per thread.
  std::vector<double> measure(double seconds) const;

 private:
  int64_t threads_, units_ = 16;
};
}  // namespace optrush
