#pragma once
#include <string>
#include <vector>

#include "base/text.h"
#include "report/analysis/analysis.h"
#include "report/numbers/verdict.h"

namespace optrush {
// Building blocks of findings.
using Sentences = std::vector<std::string>;

/// The rows that ended well and meet `wanted`, in order.
Rows select(const Analysis& a, auto&& wanted) {
  Rows rows;
  for (const Row& row : a.rows)
    if (row.ok() && wanted(row)) rows.push_back(&row);
  return rows;
}

/// The rows that meet `wanted`, in order.
Rows those(Rows rows, auto&& wanted) {
  std::erase_if(rows, [&](const Row* row) { return !wanted(*row); });
  return rows;
}

/// "A, B and C"
std::string names_text(const Rows& rows, auto&& text_of) {
  std::vector<std::string> texts;
  for (const Row* row : rows) texts.push_back(text_of(*row));
  return join(texts);
}

/// "2.07x [1.98, 2.16] as fast as base"; "as many tokens/s as" if the problems differ.
std::string speedup(const Comparison&, const std::string& than);
/// ", " and the verdict on a ratio without a claim; otherwise "".
std::string unless_claimed(const Ratio&);
/// "1 rank", "2 ranks"
std::string ranks_text(int64_t ranks);
/// " on 2 ranks instead of 1", or "".
std::string other_ranks(const Row& row, const Row& other);
/// "ran out of memory"
std::string what_happened(Status);
/// Whether a row misses the experiment's target loss while another row reaches it. Its speed is then not a
/// gain.
bool misses_loss(const Analysis&, const Row&);
/// Whether a row may be called fastest: it solves the base's problem and does not train worse.
bool is_rival(const Analysis&, const Row&);

constexpr double kWorthNaming = 0.05;  ///< smaller changes of memory are not mentioned

/// The rows of a ladder that ended well, by the available figures.
struct Ladder {
  Rows all;     ///< rows with a speed relative to the row before
  Rows known;   ///< of `all`, the rows with an interval
  Rows single;  ///< of `known`, the change of a single rung with the same problem and number of devices
  Rows joint;   ///< of `known`, the joint change of several rungs
  Rows other_problems;  ///< of `known`, other problems on the same number of devices
  Rows skipped;         ///< rows with an interval only relative to the base
  /// The last row or, with branches, the fastest; null: no row may be called that.
  const Row* end = nullptr;
};
Ladder ladder_of(const Analysis&);
/// Whether a row stacks all rungs of the ladder.
bool is_end_of_all(const Analysis&, const Row&);
/// The single rungs that are faster and reach the loss: first those that do not train worse, by speedup.
Rows gains_of(const Analysis&, const Ladder&);
/// The sentence for a ladder without such rungs: "no rung is shown to make training faster".
std::string no_gain_text(const Analysis&, const Ladder&);
/// Whether the gain of `best` is certainly the largest.
bool surely_most(const Ladder&, const Row& best);
/// The rows whose speed relative to the row before has this verdict. Each row must have such a speed.
Rows with_outcome(const Rows&, Outcome);

/// The row that is the answer of the report: the end of the ladder, the full stack, or the combination that
/// is certainly fastest; null: no row may be called that.
const Row* result_row(const Analysis&);
/// "16 % less memory"; "" if it is about equal or not known.
std::string memory_change(const std::optional<double>& ratio);

/// Adds the result of a search, if there was one.
void add_search(const Analysis&, Sentences&);
void add_grid(const Analysis&, Sentences&);
/// Adds the best series of each kind, and the share of its step that waits for other ranks.
void add_scaling(const Analysis&, Sentences&);

/// A rung that trains the same problem on the same number of ranks as a point of one of the fastest series,
/// but slower.
struct SlowerRung {
  const Row *row = nullptr, *than = nullptr;
  Ratio speed;
};
std::vector<SlowerRung> slower_on_as_many_ranks(const Analysis&);
/// Adds the fastest of the other programs.
void add_programs(const Analysis&, Sentences&);
/// Adds the gains and costs of the rungs, and the total of the ladder.
void add_ladder(const Analysis&, Sentences&);
/// Adds which stacks learn one repeated batch, if this was checked.
void add_overfit(const Analysis&, Sentences&);
/// Adds which rung reaches the target loss first, which comes next, and how close the others came. It
/// compares runs of the base's task with the same kind of loss. If all take the same number of steps, the
/// sentences about speed are enough.
void add_time_to_loss(const Analysis&, Sentences&);
}  // namespace optrush
