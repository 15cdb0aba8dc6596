// Sequences from a file with one entry per line, read as in training.
#pragma once
#include <vector>

#include "data/document_rows.h"
#include "target.h"

namespace optrush::fuzz {
inline void feed_sequences(const Files& files, const std::string& text, Documents::Form form) {
  files.write("lines.jsonl", text);
  feed([&] {
    constexpr size_t kLength = 8;
    const DocumentRows rows(Documents(files / "lines.jsonl", {}, kLength + 2, form), kLength, 1,
                            one_document_each);
    hold(form == Documents::Form::single || rows.count() % 2 == 0, "pairs are two sequences each");
    std::vector<int64_t> tokens(kLength), labels(kLength), positions(kLength);
    std::vector<int32_t> documents(kLength);
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t counted = rows.fill(i, {tokens, labels, positions, documents});
      hold(counted > 0, "a sequence has a label that counts");
      for (const int64_t token : tokens)
        hold(token >= 0 && token < rows.vocab_size(), "a token is of the vocabulary");
    }
  });
}
}  // namespace optrush::fuzz
