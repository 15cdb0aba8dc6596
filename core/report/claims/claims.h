#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/analysis.h"
#include "analysis/compare.h"

namespace optrush {
/// Speed and memory of a stack, a rung or a program relative to another one. The analysis must outlive it.
struct Relation {
  std::string name, than;    ///< as in a sentence
  const Row* row = nullptr;  ///< null: a rung of an ablation
  const Row* other = nullptr;
  std::optional<Ratio> speed;    ///< ratio of tokens/s
  std::optional<double> memory;  ///< ratio of peak memory
  std::string condition;         ///< why the problems differ; empty: like for like
  bool worse = false;            ///< it trains worse
  std::string advice;            ///< of an undecided speed: what tells more than rounds; empty: nothing
};
using Relations = std::vector<Relation>;
Relation relation_of(const Analysis&, const Row&, const Comparison&);

/// How much a claim matters in the headline; less important ones are dropped first.
enum class Weight : uint8_t { answer, gain, failure, other, trade, open, detail };
/// A sentence with intervals, or a short clause of the headline.
enum class Form : uint8_t { finding, clause };

/// A claim as a text in both forms, without a capital letter and a full stop.
struct Claim {
  Weight weight = Weight::detail;
  std::string finding, clause;
  const Row* result = nullptr;  ///< the row that it calls the answer of the report; null: none
  bool aside = false;           ///< it leaves open what the question of most reports is
};
using Claims = std::vector<Claim>;
/// Adds the claim that `text` states in each form.
Claim& add_claim(Claims& claims, Weight weight, auto&& text) {
  return claims.emplace_back(Claim{weight, text(Form::finding), text(Form::clause)});
}
/// Adds a claim with one text for both forms.
void add_text(Claims&, Weight, const std::string& text);
/// Adds "the stack up to A trains 9,526 tokens/s, 2.21x [2.05, 2.38] as fast as the base, with 56 % less
/// memory". `absolute`: states tokens/s and makes the row the result. `remark`: at the end of the sentence.
void add_trains(Claims&, Weight, const Relation&, bool absolute = false, const std::string& remark = "");

// Phrases of the sentences.

/// "1.51x [1.50, 1.52]", in a clause "1.51x".
std::string speed_text(const Ratio&, Form);
/// "no difference above 2.5 %", or "undecided"; "" for a claim. `advice`: instead of a number of rounds.
std::string verdict_text(const Ratio&, Form, const std::string& advice = "");
/// The text behind a separator; "" if it is empty.
std::string after(const char* separator, const std::string& text);
/// "A, B and C"; in a clause "A, B and 4 more".
std::string list_text(std::vector<std::string> parts, Form);
/// Names with a number, for example a loss.
using Numbers = std::vector<std::pair<std::string, double>>;
/// "A (1.234) and B (1.250)"
std::string list_text(const Numbers&, int digits, Form);
/// "1.51x [1.50, 1.52] as fast as base"
std::string as_fast(const Relation&, Form);
/// "16 % less memory"; "" if it is about equal or not known.
std::string memory_change(const std::optional<double>& ratio);
/// "ran out of memory"
std::string what_happened(Status);

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
/// Whether a comparison has an interval of its speed.
inline bool is_known(const Comparison& c) { return c.speed && c.speed->interval; }
/// Whether a row may be called fastest: it solves the base's problem and does not train worse.
bool is_rival(const Analysis&, const Row&);
/// Whether a relation is certainly larger than each other one.
bool clearly_first(const Relation&, const Relations& all);
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
