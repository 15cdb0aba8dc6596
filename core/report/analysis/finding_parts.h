#pragma once
#include <string>
#include <vector>

#include "base/suggest.h"
#include "report/analysis/analysis.h"
#include "report/numbers/verdict.h"

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

/// "2.07x [1.98, 2.16] as fast as base"; "as many tokens/s as" where the problem differs.
std::string speedup(const Comparison&, const std::string& than);
/// "1 rank", "2 ranks"
std::string ranks_text(int64_t ranks);
/// " on 2 ranks instead of 1", or nothing.
std::string other_ranks(const Row& row, const Row& other);
/// "ran out of memory"
std::string what_happened(Status);
/// Whether a row does not reach the experiment's target loss while another one does. Its speed is no gain.
bool misses_loss(const Analysis&, const Row&);
/// May be called the fastest: it solves the base's problem, and as well.
bool is_rival(const Analysis&, const Row&);

constexpr double kWorthNaming = 0.05;  ///< a change of memory below this is no trade

/// The rows of a ladder that ended well, by what can be said of them.
struct Ladder {
  Rows all;             ///< with a speed over the row before
  Rows known;           ///< of these, those with an interval
  Rows single;          ///< of these, the change of one rung: of one problem and on as many devices
  Rows joint;           ///< the same of several rungs together
  Rows other_problems;  ///< on as many devices
  Rows skipped;         ///< with an interval over the base alone
  const Row* end =
      nullptr;  ///< its last row, or the fastest where it has branches; null: none may be called that
};
Ladder ladder_of(const Analysis&);
/// Whether a row has all rungs of the ladder.
bool is_end_of_all(const Analysis&, const Row&);
/// Of the single rungs, those that are faster and do not miss the loss: first those that train no worse, by
/// their speedup.
Rows gains_of(const Analysis&, const Ladder&);
/// The sentence for a ladder without such rungs: "no rung is shown to make training faster".
std::string no_gain_text(const Analysis&, const Ladder&);
/// Whether no other rung can still turn out to be faster.
bool surely_most(const Ladder&, const Row& best);
/// Rows whose speed over the row before has this verdict; each has such a speed.
Rows with_outcome(const Rows&, Outcome);

/// The row whose speed and memory over the base are the answer: the end of the ladder, the full stack, or the
/// combination that is surely fastest; null: no row may be called that.
const Row* result_row(const Analysis&);
/// "16 % less memory"; "" where it is about the same or not known.
std::string memory_change(const std::optional<double>& ratio);

/// What a search found; nothing where there was none.
void add_search(const Analysis&, Sentences&);
void add_grid(const Analysis&, Sentences&);
/// The series of each kind that gains most, and how much of its step waits for other ranks.
void add_scaling(const Analysis&, Sentences&);

/// A rung that trains the same problem on as many ranks as one of the fastest series, and slower.
struct SlowerRung {
  const Row *row = nullptr, *than = nullptr;
  Ratio speed;
};
std::vector<SlowerRung> slower_on_as_many_ranks(const Analysis&);
/// The fastest of the other programs.
void add_programs(const Analysis&, Sentences&);
/// The gains and the costs of the rungs, and the total of the ladder.
void add_ladder(const Analysis&, Sentences&);
/// Which stacks learn one repeated batch and which do not; nothing where none was asked to.
void add_overfit(const Analysis&, Sentences&);
/// Which rung reaches the target loss first, which comes next, and how near the others came: runs of the
/// base's task whose losses are of one kind. Where all take equally many steps, other sentences tell of
/// speeds.
void add_time_to_loss(const Analysis&, Sentences&);
}  // namespace optrush
