// Documents: one JSON object per line.
#include "sequences.h"

FUZZ_TARGET(documents) {
  using namespace optrush;
  static const fuzz::Files files;
  fuzz::feed_sequences(files, fuzz::text_of(data, size), Documents::Form::single);
  return 0;
}
