// Facts from the table of a report, computed independently of the code that writes its sentences.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "analysis/analysis.h"

namespace optrush::test {
/// A ratio computed from the samples in the table.
struct Measured {
  size_t rounds = 0;
  double value = 1, low = 0, high = 0;

  bool interval() const { return rounds >= 3; }
  bool faster() const { return interval() && low > 1; }
  bool slower() const { return interval() && high < 1; }
  bool claim() const { return faster() || slower(); }
};

/// Looks facts up in the table of an analysis. The analysis must outlive it.
class Facts {
 public:
  explicit Facts(const Analysis& analysis) : a_(analysis) {}
  const Analysis& analysis() const { return a_; }

  const Row& row(const std::string& name) const;
  Measured ratio(const Row& subject, const Row& reference) const;
  /// A row against the row in its cell "vs previous" or "vs base".
  Measured to_previous(const Row& r) const;
  Measured to_base(const Row& r) const;
  std::vector<const Row*> ok_rows(const std::function<bool(const Row&)>& wanted) const;
  /// Rows of a ladder that are compared with the row right below, with the same problem and number of ranks.
  std::vector<const Row*> ladder() const;
  /// The logarithm of the largest difference that two one-sided tests do not exclude.
  double farthest(const Measured& m) const;
  bool undecided(const Measured& m) const;
  /// The row of "the full stack", "the stack up to X" or a rung.
  const Row& stack(const std::string& name) const;
  /// Names of the rungs that a row leaves out of the full stack.
  std::vector<std::string> ablated() const;
  /// The full stack over the stack without this rung. No rounds if one of them failed.
  Measured worth(const std::string& name) const;
  /// The combinations of a grid that can be called the fastest.
  std::vector<const Row*> rivals() const;
  const ScalingSeries& series(const std::string& title) const;
  /// The largest number of ranks in a series with an interval against the smallest number. Null if there is
  /// none.
  const Row* most_ranks(const ScalingSeries& series) const;
  /// Rows whose losses can be compared with the target.
  std::vector<const Row*> timed() const;
  /// Whether the row misses the target loss and another row reaches it.
  bool misses(const Row& r) const;
  const Row& last_of_ladder() const;
  std::string table() const;

 private:
  Measured ratio_to(const Row& r, int64_t variant) const;

  const Analysis& a_;
};
}  // namespace optrush::test
