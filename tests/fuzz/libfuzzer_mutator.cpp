// libFuzzer's mutations, and in one of four cases a mutation of JSON.
#include <algorithm>

#include "mutate.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  if (seed % 4 != 0) return LLVMFuzzerMutate(data, size, most);
  static const std::vector<std::string> no_words;  // libFuzzer has the dictionary
  const std::string changed =
      optrush::fuzz::Mutator(seed, no_words)({reinterpret_cast<const char*>(data), size});
  const size_t kept = std::min(changed.size(), most);
  std::copy_n(changed.begin(), kept, data);
  return kept;
}
