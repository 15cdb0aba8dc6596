#pragma once
#include <filesystem>

#include "train/continuation.h"
#include "train/run_record.h"
#include "train/session.h"

namespace optrush {
class Interleaving;

/// Optional outputs of a run; empty: none.
struct TrainFiles {
  std::filesystem::path trace;  ///< a file, where the spec wants a trace
  std::filesystem::path state;  ///< a folder, where it wants the state to be saved
};

/// Trains warm-up and timed steps and returns the measured part of a RunResult: steps, medians, memory,
/// FLOPs. Throws where nothing trains: a loss or gradient norm that is not finite, a gradient norm of zero,
/// parameters that stay. With `turns` it warms up, and then waits for its turn between the timed steps; the
/// first step of a turn of several is not timed. Where the spec wants a trace, one more step follows that the
/// result knows nothing of.
///
/// An interrupted run goes on: what it had made counts, and it warms up again before its steps are timed.
/// Memory, collectives and counters are then those of the steps made here.
RunResult train(Session&, const MetricsSink&, Interleaving* turns = nullptr, const TrainFiles& files = {},
                const Continuation& run = {});
}  // namespace optrush
