// Pairs of answers: one JSON object per line.
#include "sequences.h"

FUZZ_TARGET(preferences) {
  using namespace optrush;
  static const fuzz::Files files;
  fuzz::feed_sequences(files, fuzz::text_of(data, size), Documents::Form::pairs);
  return 0;
}
