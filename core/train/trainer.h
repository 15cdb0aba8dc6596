#pragma once
#include <filesystem>

#include "train/continuation.h"
#include "train/run_record.h"
#include "train/session.h"

namespace optrush {
class Interleaving;

/// Optional output files of a run; an empty path: none.
struct TrainFiles {
  std::filesystem::path trace;  ///< file for the trace, if the spec asks for one
  std::filesystem::path state;  ///< folder for the state, if the spec asks for it
};

/// Trains warm-up and timed steps and returns the measured part of a RunResult: steps, medians, memory,
/// FLOPs. Throws an Error if nothing trains: the loss or gradient norm is not finite, the gradient norm is
/// zero, or no parameter changes. With `turns` it warms up and then waits for its turn between timed steps;
/// the first of several steps of a turn is not timed. For a trace, one more step follows.
///
/// An interrupted run continues: the steps it had made count, and it warms up again before it times the
/// others. Memory, collectives and counters are those of the steps made by this process.
RunResult train(Session&, const MetricsSink&, Interleaving* turns = nullptr, const TrainFiles& files = {},
                const Continuation& run = {});
}  // namespace optrush
