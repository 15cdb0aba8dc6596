#pragma once
#include "results/run_result.h"
#include "train/session.h"

namespace optrush {
/// Adds to rank 0's result what the ranks tell of themselves and the mesh, and makes what they counted alone
/// that of all: operations, energy, counters of plugins. Every rank calls it; nothing happens where there is
/// one.
void add_ranks(RunResult& result, Session&, const std::string& device);
}  // namespace optrush
