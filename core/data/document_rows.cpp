#include "data/document_rows.h"

#include <algorithm>
#include <cmath>

#include "base/counter_random.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace {
std::string percent(int64_t part, int64_t whole) {
  return std::to_string(std::lround(100.0 * static_cast<double>(part) / static_cast<double>(whole))) + " %";
}

[[noreturn]] void refuse_rows(const std::string& what) {
  throw Error(ErrorCode::invalid_plugin, "the plugin of slot 'rows' placed documents wrongly: " + what,
              "report this error to the author of the plugin");
}

/// Checks that each document occurs once and no sequence is empty or too long.
void check_rows(const Rows& rows, std::span<const int64_t> lengths, int64_t seq_len) {
  std::vector<bool> seen(lengths.size());
  for (const auto& row : rows) {
    int64_t filled = 0;
    for (const int64_t document : row) {
      if (document < 0 || document >= static_cast<int64_t>(lengths.size()))
        refuse_rows("there is no document " + std::to_string(document));
      const auto i = static_cast<size_t>(document);
      if (seen[i]) refuse_rows("document " + std::to_string(document) + " occurs twice");
      seen[i] = true;
      filled += lengths[i];
    }
    if (filled > seq_len)
      refuse_rows("a sequence of " + counted(seq_len, "position") + " has documents of " +
                  std::to_string(filled));
    if (row.empty()) refuse_rows("a sequence is empty");
  }
  if (const auto missing = std::ranges::count(seen, false); missing > 0)
    refuse_rows(counted(missing, "document") + " in no sequence");
}
}  // namespace

Rows one_document_each(std::span<const int64_t> lengths, int64_t) {
  Rows rows;
  for (size_t i = 0; i < lengths.size(); ++i) rows.push_back({static_cast<int64_t>(i)});
  return rows;
}

DocumentRows::DocumentRows(Documents documents, int64_t seq_len, uint64_t seed, const RowPacker& lay,
                           const Share& share)
    : documents_(std::move(documents)), seq_len_(seq_len), seed_(seed), shuffled_(!share.gives_held_out) {
  choose(share);
  std::vector<int64_t> lengths;
  for (const int64_t document : used_) lengths.push_back(positions_of(document));
  rows_ = documents_.together() > 1 ? one_document_each(lengths, seq_len) : lay(lengths, seq_len);
  check_rows(rows_, lengths, seq_len);
  for (const auto& row : rows_) {
    int64_t filled = 0;
    for (const int64_t place : row) {
      const int64_t length = lengths[static_cast<size_t>(place)];
      longest_ = std::max(longest_, length);
      filled += length;
    }
    longest_ = std::max(longest_, seq_len - filled);
    // If every sequence is one document, its padding needs no number, because no position attends to it.
    if (row.size() > 1)
      most_ = std::max(most_, static_cast<int64_t>(row.size()) + (filled < seq_len ? 1 : 0));
  }
}

/// Selects all documents but the held-out last ones, or only those, if they have a label that counts.
void DocumentRows::choose(const Share& share) {
  const int64_t all = documents_.count(), training = all - share.held_out, together = documents_.together();
  if (share.held_out % together != 0)
    throw Error(ErrorCode::invalid_value,
                "validate holds out " + counted(share.held_out, "sequence") + " of pairs",
                "give an even number of validate.sequences");
  const auto learned_from = [&](int64_t i) {
    const auto trained = documents_.trained(i);
    return !trained.empty() && trained.front().begin <= positions_of(i);
  };
  for (int64_t i = share.gives_held_out ? std::max<int64_t>(0, training) : 0;
       i < (share.gives_held_out ? all : training); i += together) {
    if (!learned_from(i) || !learned_from(i + together - 1)) {
      const bool none = documents_.trained(i).empty() || documents_.trained(i + together - 1).empty();
      (none ? untrained_ : trained_late_) += together;
      continue;
    }
    if (together > 1 && alike(i)) {
      const auto whole = static_cast<int64_t>(documents_.tokens(i).size()) - 1 <= seq_len_;
      ++(whole ? alike_ : alike_cut_);
      continue;
    }
    for (int64_t each = i; each < i + together; ++each) {
      used_.push_back(each);
      if (static_cast<int64_t>(documents_.tokens(each).size()) - 1 > seq_len_) ++cut_;
    }
  }
  if (training < 0 || used_.empty())
    throw Error(ErrorCode::invalid_value,
                "no document is left for " + std::string(share.gives_held_out ? "validation" : "training") +
                    ": validate holds out " + std::to_string(share.held_out) + " of " + std::to_string(all) +
                    " documents" + left_out(),
                "give more documents, a smaller validate.sequences or a larger train.seq_len");
}

/// Whether the chosen and the rejected answer are equal within a sequence. Such a pair has no gradient.
bool DocumentRows::alike(int64_t chosen) const {
  const auto within = [&](int64_t document) {
    return documents_.tokens(document).first(static_cast<size_t>(positions_of(document)) + 1);
  };
  return std::ranges::equal(within(chosen), within(chosen + 1)) &&
         std::ranges::equal(documents_.trained(chosen), documents_.trained(chosen + 1));
}

/// Describes what was left out, and why; "" if nothing was.
std::string DocumentRows::left_out() const {
  const std::pair<int64_t, const char*> reasons[] = {
      {untrained_, "documents without a trained token"},
      {trained_late_, "documents whose first trained token is beyond the sequence length"},
      {alike_, "pairs with identical answers"},
      {alike_cut_, "pairs whose answers differ only beyond the sequence length"}};
  std::string text;
  for (const auto& [count, what] : reasons)
    if (count > 0) text += "; skipped " + std::string(what) + ": " + std::to_string(count);
  return text;
}

int64_t DocumentRows::positions_of(int64_t document) const {
  return std::min(static_cast<int64_t>(documents_.tokens(document).size()) - 1, seq_len_);
}

const std::vector<int64_t>& DocumentRows::row(int64_t index) const {
  const auto together = static_cast<uint64_t>(documents_.together()), all = static_cast<uint64_t>(count());
  const auto here = static_cast<uint64_t>(index % count());
  uint64_t number = here;
  if (shuffled_)
    number =
        permuted(here / together, all / together, random_at(seed_, static_cast<uint64_t>(index / count()))) *
            together +
        here % together;
  return rows_[number];
}

RowContent DocumentRows::content(int64_t index, const AttentionPairs& pairs) const {
  RowContent content;
  for (const int64_t place : row(index)) {
    const int64_t length = positions_of(used_[static_cast<size_t>(place)]);
    content.tokens += length;
    content.pairs += pairs.of(length);
  }
  return content;
}

int64_t DocumentRows::fill(int64_t index, const RowView& to) const {
  int64_t at = 0, trained_here = 0;
  int32_t order = 0;
  for (const int64_t place : row(index)) {
    const int64_t document = used_[static_cast<size_t>(place)];
    const auto tokens = documents_.tokens(document);
    const auto trained = documents_.trained(document);
    const int64_t length = positions_of(document);
    auto span = trained.begin();
    for (int64_t i = 0; i < length; ++i) {
      const auto here = static_cast<size_t>(at + i), next = static_cast<size_t>(i + 1);
      while (span != trained.end() && span->end <= i + 1) ++span;
      const bool counts = span != trained.end() && span->begin <= i + 1;
      to.tokens[here] = tokens[next - 1];
      to.labels[here] = counts ? static_cast<int64_t>(tokens[next]) : kIgnoredLabel;
      to.positions[here] = i;
      to.documents[here] = order;
      trained_here += counts ? 1 : 0;
    }
    at += length;
    ++order;
  }
  for (int64_t i = at; i < std::ssize(to.tokens); ++i) {
    const auto here = static_cast<size_t>(i);
    to.tokens[here] = 0;
    to.labels[here] = kIgnoredLabel;
    to.positions[here] = i - at;
    to.documents[here] = order;
  }
  return trained_here;
}

bool DocumentRows::leaves_out_many() const {
  return 19 * (untrained_ + trained_late_ + 2 * (alike_ + alike_cut_)) > std::ssize(used_);
}

std::string DocumentRows::description() const {
  int64_t filled = 0;
  for (const int64_t document : used_) filled += positions_of(document);
  const auto sequences = static_cast<int64_t>(rows_.size());
  std::string text = counted(used_.size(), "document") + " in " + counted(sequences, "sequence") + ", " +
                     percent(filled, sequences * seq_len_) + " of their positions filled";
  if (cut_ > 0)
    text += "; " + std::to_string(cut_) + (cut_ == 1 ? " was" : " were") + " cut at " +
            std::to_string(seq_len_ + 1) + " tokens";
  return text + left_out();
}
}  // namespace optrush
