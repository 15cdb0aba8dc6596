#pragma once
#include <cstdint>
#include <string>

namespace optrush {
/// The windows of a corpus that a source returns: all but the last `held_out` ones, or only these.
struct Share {
  int64_t held_out = 0;
  bool gives_held_out = false;
};

/// Cuts a corpus into windows of one sample, without overlap, and shuffles them anew in each epoch. Held-out
/// windows keep their order.
class Windows {
 public:
  /// Throws an Error if the corpus is shorter than one sample and the held-out part. `corpus`: its name in
  /// the Error.
  Windows(int64_t corpus_tokens, int64_t sample_length, uint64_t seed, const std::string& corpus,
          const Share& share = {});

  /// The number of samples per epoch.
  int64_t count() const { return count_; }
  /// The index of the first token of sample `index`.
  int64_t begin(int64_t index) const;

 private:
  int64_t sample_length_, first_ = 0, count_;  ///< in windows
  bool shuffled_;
  uint64_t seed_;
};
}  // namespace optrush
