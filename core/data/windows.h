#pragma once
#include <cstdint>
#include <string>

namespace optrush {
/// Cuts a corpus into windows of one sample, without overlap, and shuffles them anew in each epoch.
class Windows {
 public:
  /// An Error where the corpus is shorter than one sample; `corpus` names it.
  Windows(int64_t corpus_tokens, int64_t sample_length, uint64_t seed, const std::string& corpus);

  /// Number of the first token of sample `index`.
  int64_t begin(int64_t index) const;

 private:
  int64_t sample_length_, count_;
  uint64_t seed_;
};
}  // namespace optrush
