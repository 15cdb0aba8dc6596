// Quantities with a unit in the command line and in scripts: "5m", "512 MiB". And values of any type as text.
#include "experiment/experiment.h"
#include "spec/value.h"
#include "target.h"

FUZZ_TARGET(quantity) {
  using namespace optrush;
  const std::string text = fuzz::text_of(data, size);
  fuzz::feed([&] { fuzz::hold(seconds_from(text, "--at-most") > 0, "a length of time is positive"); });
  fuzz::feed([&] { fuzz::hold(bytes_from(text, "memory") > 0, "a size is positive"); });
  fuzz::feed([&] {
    const Json value = text_value(text);
    fuzz::hold(text_value(text, "string") == text, "text is text");
    fuzz::hold(!value.is_discarded(), "whatever is written is a value");
  });
  return 0;
}
