#pragma once
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "report/claims/claim.h"

namespace optrush {
/// All that a report claims, the answer of its question first. The only source of its sentences.
Claims claims_of(const Analysis&);

/// Sentences with intervals, the most important first; at least one.
std::vector<std::string> findings(const Analysis&);
/// All findings on one line.
std::string finding_text(const Analysis&);
/// The answer in one sentence: the device, the fastest stack with its tokens/s, and what contributes to it.
/// It claims only what the table shows to be certain, and calls no undecided rung faster or slower.
std::string headline(const Analysis&);
/// Which runs are missing, and the command that finishes them; "" if none is.
std::string missing_warning(const Analysis&);
/// A sentence for each other report. It names the rungs that are certainly faster or slower than in the first
/// report, among the rungs that both have with the same problem.
std::string headline(const ComparedReports&);

/// The row that is the answer of the report: the fastest stack or combination, or the full stack; null: no
/// row may be called that.
const Row* result_row(const Analysis&);
/// Whether a row misses the experiment's target loss while another row reaches it. Its speed is then not a
/// gain.
bool misses_loss(const Analysis&, const Row&);

// Parts of claims_of().

/// The rows that ended well and meet `wanted`, in order.
Rows select(const Analysis& a, auto&& wanted) {
  return rows_where(a.rows, [&](const Row& row) { return row.ok() && wanted(row); });
}
/// Whether a row may be called fastest: it solves the base's problem and does not train worse.
bool is_rival(const Analysis&, const Row&);
/// Whether the first relation is certainly larger than each other one.
bool clearly_first(const Relations&);
/// The stack of a row: "the full stack", "the stack up to bf16", or a single rung's name.
std::string stack_name(const Analysis&, const Row&);
/// The fastest stack, the smallest one, and the gains and costs of the rungs.
void add_ladder(const Analysis&, Claims&);
/// The full stack, and the contribution of each rung to it.
void add_ablation(const Analysis&, Claims&);
/// The fastest combination, and what a choice changes relative to the one that the view names.
void add_grid(const Analysis&, Claims&);
/// The largest number of ranks of each series.
void add_scaling(const Analysis&, Claims&);
void add_programs(const Analysis&, Claims&);
/// The answers of experiments with another question than speed: a search, learning one batch, reaching a
/// loss, published figures, validation losses.
void add_answers(const Analysis&, Claims&);
/// If nothing is claimed: the ratios so far, and the command that would allow a claim.
void add_open(const Analysis&, Claims&);
/// Rows without enough rounds, if other rows have claims.
void add_too_few(const Analysis&, Claims&);
/// Rungs that train worse, and rungs that failed.
void add_ends(const Analysis&, Claims&);

/// "about 3 min more would allow a claim (--resume --at-most 4m)"
std::string would_allow_a_claim(double seconds);
}  // namespace optrush
