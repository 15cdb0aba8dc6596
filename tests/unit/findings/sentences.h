// The sentences of a report's claims, each with a check against the table. The Facts must outlive them.
#pragma once
#include "facts.h"
#include "patterns.h"

namespace optrush::test {
/// "1.52x [1.48, 1.57]" in a finding, "1.52x" in the headline: three groups, the first is `at`.
void is(const Facts& f, const Groups& g, size_t at, const Measured& m);
void is(const std::string& text, double value, const std::string& what);
/// Checks ", no difference above 2.1 %", ", undecided" or nothing by two one-sided tests.
void verdict(const Facts& f, const std::string& text, const Measured& m);
/// "A, B and C"; in the headline "A, B and 4 more". `holds` is true of each row that must be named.
void names(const Facts& f, std::vector<std::string> named, const std::string& list,
           const std::function<bool(const Row&)>& holds);
Sentences of_relations(const Facts&);  ///< stacks, rungs, combinations and programs by speed and memory
Sentences of_answers(const Facts&);    ///< other questions, failed runs, and too few rounds for a claim
}  // namespace optrush::test
