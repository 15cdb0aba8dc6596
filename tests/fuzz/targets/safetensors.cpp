// A safetensors file: a header of JSON and the bytes of tensors.
#include "io/safetensors.h"

#include <ATen/Functions.h>

#include "target.h"

FUZZ_TARGET(safetensors) {
  using namespace optrush;
  fuzz::feed([&] {
    const auto file = std::as_bytes(std::span(data, size));
    size_t reached = 0;
    const auto header = parse_safetensors(file, "input");
    for (const auto& entry : header.entries) {
      fuzz::hold(entry.begin <= entry.end && entry.end <= size, "a tensor lies in the file");
      fuzz::hold(reached == 0 || entry.begin == reached, "there are no holes");
      reached = entry.end;
      if (entry.dtype.starts_with("F8") || entry.dtype == "C64" ||
          (entry.dtype[0] == 'U' && entry.dtype != "U8"))
        continue;  // valid in the format, but not supported
      const Tensor tensor = at::empty(entry.shape, scalar_type(entry, "input"));
      fuzz::hold(tensor.nbytes() == entry.end - entry.begin, "a tensor has the bytes of its shape");
    }
    fuzz::hold(reached == 0 || reached == size, "the tensors end with the file");
  });
  return 0;
}
