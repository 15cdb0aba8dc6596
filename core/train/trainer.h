#pragma once
#include <filesystem>
#include <functional>

#include "optrush/json.h"
#include "train/session.h"

namespace optrush {
class Turns;

/// Called as a run goes on: one JSON object a line of metrics.jsonl.
using MetricsSink = std::function<void(const Json&)>;

/// What a run may write beside its result; empty: it does not.
struct TrainFiles {
  std::filesystem::path trace;  ///< a file, where the spec wants a trace
  std::filesystem::path state;  ///< a folder, where it wants the state to be saved
};

/// Trains warm-up and timed steps and returns the measured part of a RunResult: steps, medians, memory,
/// FLOPs. Throws where nothing trains: a loss or gradient norm that is not finite, a gradient norm of zero,
/// parameters that stay. With `turns` it warms up, and then waits for its turn between the timed steps; the
/// first step of a turn of several is not timed. Where the spec wants a trace, one more step follows that the
/// result knows nothing of.
Json train(Session&, const MetricsSink&, Turns* turns = nullptr, const TrainFiles& files = {});
}  // namespace optrush
