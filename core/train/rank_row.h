#pragma once
#include "results/run_result.h"
#include "train/session.h"

namespace optrush {
/// Adds the ranks' own results and the mesh to rank 0's result, and combines what each rank counted:
/// operations, energy, counters of plugins. Every rank calls it. Does nothing for one rank.
void add_ranks(RunResult& result, Session&, const std::string& device);
}  // namespace optrush
