// Checks that several sentences use.
#pragma once
#include <functional>
#include <string>

#include "facts.h"
#include "patterns.h"

namespace optrush::test {
void is(const std::string& text, double value, const std::string& what);
/// A ratio and its interval: three groups, the first is `at`.
void is(const Groups& g, size_t at, const Measured& m);
/// Checks "A", "A and B" or "3 rungs": `holds` is true of each row.
void names(const Facts& f, const std::string& text, const std::function<bool(const Row&)>& holds);
/// Checks by two one-sided tests at the level of the experiment.
void verdict(const Facts& f, const std::string& text, const Measured& m);
void saves(const Facts& f, const std::string& percent, const Row& r);
/// `most`: the sentence says that no other rung gains more. Otherwise it says that no rung is known to gain
/// more.
void best_gain(const Facts& f, const Row& mine, bool most);
/// The same check for contributions to the full stack.
void best_contribution(const Facts& f, const std::string& name, bool most);
/// "no rung is shown to make training faster without training worse and to reach the loss"
void no_gain(const Facts& f, const std::string& worse, const std::string& loss);
void decides(const Facts& f, const std::string& text);
/// Checks the sentence about the fastest series of a kind.
void scales(const Facts& f, const ScalingSeries& told, const std::string& ranks, const std::string& fewest,
            const std::string& efficient, const Measured& speed);
void slower_on_as_many(const Facts& f, const Row& slow, const Row& fast);
Status ended_so(const std::string& how);
}  // namespace optrush::test
