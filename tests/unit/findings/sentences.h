// The sentences of a report's findings by what they are about. Each looks up the Facts, which have to stay.
#pragma once
#include "facts.h"
#include "patterns.h"

namespace optrush::test {
Sentences of_ladders(const Facts&);
Sentences of_combinations(const Facts&);    ///< full stacks, ablations and grids
Sentences of_open_questions(const Facts&);  ///< what failed, and what has too few rounds for a claim
Sentences of_searches(const Facts&);
Sentences of_scalings(const Facts&);  ///< several ranks and other programs
Sentences of_target_losses(const Facts&);
/// Parts of the sentence that a report opens with.
Sentences clauses(const Facts&);
}  // namespace optrush::test
