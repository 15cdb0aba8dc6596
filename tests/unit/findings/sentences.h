// The sentences of a report's findings by subject. The Facts must outlive them.
#pragma once
#include "facts.h"
#include "patterns.h"

namespace optrush::test {
Sentences of_ladders(const Facts&);
Sentences of_combinations(const Facts&);    ///< full stacks, ablations and grids
Sentences of_open_questions(const Facts&);  ///< failed runs, and runs with too few rounds for a claim
Sentences of_searches(const Facts&);
Sentences of_scalings(const Facts&);  ///< several ranks and other programs
Sentences of_target_losses(const Facts&);
/// Clauses of the headline.
Sentences clauses(const Facts&);
}  // namespace optrush::test
