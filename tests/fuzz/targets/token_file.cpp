// A token file, opened as in training, and its samples.
#include <algorithm>

#include "data/token_source.h"
#include "target.h"

FUZZ_TARGET(token_file) {
  using namespace optrush;
  static const fuzz::Files files;
  files.write("tokens.bin", fuzz::text_of(data, size));
  fuzz::feed([&] {
    const auto source = open_source({.kind = "tokens", .path = files / "tokens.bin"}, 1, 100, 2);
    std::vector<int64_t> sample(2);
    for (int64_t i = 0; i < 8; ++i) {
      source->sample(i, sample);
      fuzz::hold(std::ranges::min(sample) >= 0 && std::ranges::max(sample) < source->vocab_size(),
                 "a token is of the vocabulary");
    }
  });
  return 0;
}
