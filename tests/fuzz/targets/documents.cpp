// Documents, read as training does, and a sequence of each.
#include <vector>

#include "data/document_rows.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace optrush;
  static const fuzz::Files files;
  files.write("documents.jsonl", fuzz::text_of(data, size));
  fuzz::feed([&] {
    constexpr size_t kLength = 8;
    const DocumentRows rows(Documents(files / "documents.jsonl", {}, kLength + 2), kLength, 1,
                            one_document_each);
    std::vector<int64_t> tokens(kLength), labels(kLength), positions(kLength);
    std::vector<int32_t> documents(kLength);
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t counted = rows.fill(i, {tokens, labels, positions, documents});
      fuzz::hold(counted > 0, "a sequence has a label that counts");
      for (const int64_t token : tokens)
        fuzz::hold(token >= 0 && token < rows.vocab_size(), "a token is of the vocabulary");
    }
  });
  return 0;
}
