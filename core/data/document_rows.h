#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/documents.h"
#include "data/token_source.h"
#include "model/model.h"
#include "optrush/batch.h"

namespace optrush {
/// Places documents with these lengths (in positions) in sequences of seq_len positions.
using RowPacker = std::function<Rows(std::span<const int64_t> lengths, int64_t seq_len)>;
/// One document per sequence, in order.
Rows one_document_each(std::span<const int64_t> lengths, int64_t seq_len);

/// The label of a position without a loss.
inline constexpr int64_t kIgnoredLabel = -100;

/// The content of one sequence: as many numbers each, enough for its documents.
struct RowView {
  std::span<int64_t> tokens, labels, positions;
  std::span<int32_t> documents;  ///< document numbers, increasing from 0; padding is one more at the end
};

/// Counts in a sequence.
struct RowContent {
  int64_t tokens = 0;  ///< positions without padding
  double pairs = 0;    ///< pairs of positions that attention relates (AttentionPairs)
};

/// Sequences made of whole documents. A document takes one position per token except the last, which is only
/// a label. A longer document is cut to a sequence; one without a trained token in its sequence is left out.
/// Sequences are shuffled in each epoch, by seed and epoch only. The two documents of a preference pair are
/// in consecutive sequences, or both are left out; so is a pair with equal answers within a sequence.
class DocumentRows {
 public:
  /// Throws an Error if `lay` omits or repeats a document or overfills a sequence.
  DocumentRows(Documents, int64_t seq_len, uint64_t seed, const RowPacker& lay, const Share& = {});

  /// Fills sequence `index`, from 0 without a limit. Returns the number of labels with a loss.
  int64_t fill(int64_t index, const RowView&) const;
  RowContent content(int64_t index, const AttentionPairs&) const;
  /// The largest number of documents in a sequence, padding included; 1 if no document has a neighbour.
  int64_t most_documents() const { return most_; }
  /// The largest number of positions of a document or of padding.
  int64_t longest() const { return longest_; }
  /// Sequences per epoch.
  int64_t count() const { return static_cast<int64_t>(rows_.size()); }
  int64_t vocab_size() const { return documents_.vocab_size(); }
  /// "12 documents in 5 sequences, 61 % of their positions filled; 2 were cut at 128 tokens"
  std::string description() const;
  /// Whether more than 5 % of the documents were left out.
  bool leaves_out_many() const;

 private:
  void choose(const Share&);
  int64_t positions_of(int64_t document) const;
  const std::vector<int64_t>& row(int64_t index) const;

  bool alike(int64_t chosen) const;
  std::string left_out() const;

  Documents documents_;
  int64_t seq_len_, most_ = 1, longest_ = 0, cut_ = 0, untrained_ = 0, trained_late_ = 0;
  /// Pairs with equal answers; alike_cut_: those that differ only behind the cut
  int64_t alike_ = 0, alike_cut_ = 0;
  uint64_t seed_;
  bool shuffled_;
  std::vector<int64_t> used_;  ///< documents in use, in order
  Rows rows_;                  ///< indices into used_
};
}  // namespace optrush
