#pragma once
#include <string>
#include <vector>

#include "base/suggest.h"
#include "report/analysis/analysis.h"

namespace optrush {
// What the sentences of a finding are made of.
using Rows = std::vector<const Row*>;
using Sentences = std::vector<std::string>;

/// Rows that ended well and are `wanted`, in their order.
Rows select(const Analysis& a, auto&& wanted) {
  Rows rows;
  for (const Row& row : a.rows)
    if (row.ok() && wanted(row)) rows.push_back(&row);
  return rows;
}

/// "A, B and C"
std::string names_text(const Rows& rows, auto&& text_of) {
  std::vector<std::string> texts;
  for (const Row* row : rows) texts.push_back(text_of(*row));
  return join(texts);
}

/// "2.07x [1.98, 2.16]" with the remark that the batch differs, where it does.
std::string speedup(const Comparison&);
/// "1 rank", "2 ranks"
std::string ranks_text(int64_t ranks);
/// " on 2 ranks instead of 1", or nothing.
std::string other_ranks(const Row& row, const Row& other);
/// May be called the fastest: it solves the base's problem, and as well.
bool is_rival(const Row&);

/// What pays, what costs, what the whole ladder comes to.
void add_ladder(const Analysis&, Sentences&);
/// Who has the loss down to the target soonest, who comes next, and how near the others came: runs of the
/// base's task whose losses are of one kind. Where all take equally many steps, other sentences tell of
/// speeds.
void add_time_to_loss(const Analysis&, Sentences&);
}  // namespace optrush
