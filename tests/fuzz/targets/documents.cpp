// Documents, a JSON object a line.
#include "sequences.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace optrush;
  static const fuzz::Files files;
  fuzz::feed_sequences(files, fuzz::text_of(data, size), Documents::Form::single);
  return 0;
}
