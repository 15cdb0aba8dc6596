#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/documents.h"
#include "data/windows.h"
#include "model/model.h"
#include "optrush/batch.h"

namespace optrush {
/// Lays documents of these lengths, in positions, into sequences of seq_len of them.
using LayRows = std::function<Rows(std::span<const int64_t> lengths, int64_t seq_len)>;
/// One document a sequence, in their order.
Rows one_document_each(std::span<const int64_t> lengths, int64_t seq_len);

/// A label that no loss is taken on.
inline constexpr int64_t kIgnoredLabel = -100;

/// The content of one sequence, seq_len numbers each.
struct RowView {
  std::span<int64_t> tokens, labels, positions;
  std::span<int32_t> documents;  ///< numbers from 0 on, rising; padding is one more at the end
};

/// Counts of a sequence.
struct RowContent {
  int64_t tokens = 0;  ///< positions that are not padding
  double pairs = 0;    ///< of positions that attention relates (AttentionPairs)
};

/// Sequences made of whole documents. A document takes a position for each token but its last, which is only
/// a label; what is longer than a sequence is cut, and one whose prompt fills it is left out. Sequences are
/// shuffled anew in each epoch, by the seed and their number alone. Of pairs, both lie in sequences of their
/// own that follow each other, or neither is there; a pair whose answers are alike within a sequence is left
/// out, as nothing is preferred there.
class DocumentRows {
 public:
  /// An Error where `lay` leaves a document out, repeats one, or fills a sequence beyond its end.
  DocumentRows(Documents, int64_t seq_len, uint64_t seed, const LayRows& lay, const Share& = {});

  /// Fills sequence `index`, from 0 without end. Returns how many of its labels count.
  int64_t fill(int64_t index, const RowView&) const;
  RowContent content(int64_t index, const AttentionPairs&) const;
  /// The most documents of a sequence, padding among them: 1 where none has a neighbour.
  int64_t most_documents() const { return most_; }
  /// The most positions of a document, or of the padding behind some.
  int64_t longest() const { return longest_; }
  /// Sequences of an epoch.
  int64_t count() const { return static_cast<int64_t>(rows_.size()); }
  int64_t vocab_size() const { return documents_.vocab_size(); }
  /// "12 documents in 5 sequences, 61 % of their positions filled; 2 were cut at 128 tokens"
  std::string description() const;

 private:
  void choose(const Share&);
  int64_t positions_of(int64_t document) const;
  const std::vector<int64_t>& row(int64_t index) const;

  bool alike(int64_t chosen) const;
  std::string left_out() const;

  Documents documents_;
  int64_t seq_len_, most_ = 1, longest_ = 0, cut_ = 0, filled_ = 0;
  int64_t alike_ = 0, alike_cut_ = 0;  ///< pairs; of the second ones the rest was cut off
  uint64_t seed_;
  bool shuffled_;
  std::vector<int64_t> used_;  ///< documents, in their order
  Rows rows_;                  ///< of places in used_
};
}  // namespace optrush
