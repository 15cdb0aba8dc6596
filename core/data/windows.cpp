#include "data/windows.h"

#include "base/counter_random.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
Windows::Windows(int64_t corpus_tokens, int64_t sample_length, uint64_t seed, const std::string& corpus,
                 const Share& share)
    : sample_length_(sample_length),
      count_(corpus_tokens / sample_length),
      shuffled_(!share.gives_held_out),
      seed_(seed) {
  const int64_t all = count_, training = all - share.held_out;
  if (all > 0 && (training < 0 || (training == 0 && !share.gives_held_out)))
    throw Error(ErrorCode::invalid_value,
                corpus + " has " + counted(all, "sequence") + " of train.seq_len, but validate holds out " +
                    std::to_string(share.held_out),
                "give a longer corpus, or a smaller validate.sequences");
  if (share.gives_held_out) {
    first_ = training;
    count_ = share.held_out;
  } else {
    count_ = training;
  }
  if (all == 0)
    throw Error(ErrorCode::invalid_value,
                corpus + " has " + counted(corpus_tokens, "token") + ", but one sample needs " +
                    std::to_string(sample_length) + " (seq_len + 1)",
                "give a longer corpus or a smaller train.seq_len");
}

int64_t Windows::begin(int64_t index) const {
  if (!shuffled_) return (first_ + index % count_) * sample_length_;
  const int64_t epoch = index / count_;
  const uint64_t seed = random_at(seed_, static_cast<uint64_t>(epoch));
  const auto window = permuted(static_cast<uint64_t>(index % count_), static_cast<uint64_t>(count_), seed);
  return static_cast<int64_t>(window) * sample_length_;
}
}  // namespace optrush
