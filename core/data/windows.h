#pragma once
#include <cstdint>
#include <string>

namespace optrush {
/// Which windows of a corpus a source gives: all but the last `held_out`, or these alone.
struct Share {
  int64_t held_out = 0;
  bool gives_held_out = false;
};

/// Cuts a corpus into windows of one sample, without overlap, and shuffles them anew in each epoch. What is
/// held out is given in its order.
class Windows {
 public:
  /// An Error where the corpus is shorter than one sample and what is held out; `corpus` names it.
  Windows(int64_t corpus_tokens, int64_t sample_length, uint64_t seed, const std::string& corpus,
          const Share& share = {});

  /// Samples of an epoch.
  int64_t count() const { return count_; }
  /// Number of the first token of sample `index`.
  int64_t begin(int64_t index) const;

 private:
  int64_t sample_length_, first_ = 0, count_;  ///< in windows
  bool shuffled_;
  uint64_t seed_;
};
}  // namespace optrush
