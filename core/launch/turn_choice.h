#pragma once
#include <vector>

#include "experiment/experiment.h"
#include "launch/schedule.h"

namespace optrush {
/// Whether a run can be told when to make its steps.
bool knows_turns(const Job&, bool launched);

/// Those of a round's jobs that take turns with each other; fewer than two: none. A program that does not
/// know of turns and a run with ranks on other machines (`launched`: there may be some) take no part. Where
/// the experiment leaves it open, a job takes part on a CPU, where its plan foresees its peak, and as long as
/// the peaks of all of them fit into the memory that is free. `plans` by variant.
std::vector<Job> chosen_for_turns(const std::vector<Job>&, const std::vector<Json>& plans, InTurns,
                                  bool launched);
}  // namespace optrush
