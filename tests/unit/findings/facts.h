// What the table of a report says, found without the code that writes its sentences.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "report/analysis/analysis.h"

namespace optrush::test {
/// A ratio as the samples of the table give it.
struct Measured {
  size_t rounds = 0;
  double value = 1, low = 0, high = 0;

  bool interval() const { return rounds >= 3; }
  bool faster() const { return interval() && low > 1; }
  bool slower() const { return interval() && high < 1; }
  bool claim() const { return faster() || slower(); }
};

/// Looks things up in the table of an analysis, which has to stay.
class Facts {
 public:
  explicit Facts(const Analysis& analysis) : a_(analysis) {}
  const Analysis& analysis() const { return a_; }

  const Row& row(const std::string& name) const;
  Measured ratio(const Row& subject, const Row& reference) const;
  /// Of a row with the one that its cell "vs previous" or "vs base" is about.
  Measured to_previous(const Row& r) const;
  Measured to_base(const Row& r) const;
  std::vector<const Row*> ok_rows(const std::function<bool(const Row&)>& wanted) const;
  /// Rows of a ladder with a cell against the row right below, of one problem and on as many ranks.
  std::vector<const Row*> ladder() const;
  /// The logarithm of the largest difference that is not excluded, by two one-sided tests.
  double farthest(const Measured& m) const;
  bool undecided(const Measured& m) const;
  /// Of "the full stack", "the stack up to X" or a rung.
  const Row& stack(const std::string& name) const;
  /// Names of the rungs that a row of the table leaves out of the full stack.
  std::vector<std::string> ablated() const;
  /// The full stack over the one without it; no rounds where one of them did not end well.
  Measured worth(const std::string& name) const;
  /// Of a grid, what can be called the fastest.
  std::vector<const Row*> rivals() const;
  const ScalingSeries& series(const std::string& title) const;
  /// Of a series, the most ranks that have an interval over the fewest; null: none have.
  const Row* most_ranks(const ScalingSeries& series) const;
  /// Rows whose losses can be compared with the target.
  std::vector<const Row*> timed() const;
  /// Does not reach the target loss, which another row does.
  bool misses(const Row& r) const;
  /// Runs without a result yet.
  size_t missing() const;
  const Row& last_of_ladder() const;
  std::string table() const;

 private:
  Measured ratio_to(const Row& r, int64_t variant) const;

  const Analysis& a_;
};
}  // namespace optrush::test
