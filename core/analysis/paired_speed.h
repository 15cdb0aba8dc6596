#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/numbers/statistics.h"
#include "results/run_result.h"

namespace optrush {
struct Row;

/// The steps of a round that were interleaved with those of other runs.
struct InterleavedSamples {
  std::string group;  ///< the group of runs that were interleaved with each other; "": the run was alone
  /// Tokens/s of the timed steps by step number, in order; empty if the run was alone.
  std::vector<std::pair<int64_t, double>> speed;
};
InterleavedSamples interleaved(const RunResult&);

/// The ratio of tokens/s over the rounds that both have; none without such a round. Each round is one sample:
/// if both were interleaved, the median of the ratios step by step, otherwise the ratio of their medians.
/// With at least kMinRounds interleaved rounds, only those count.
std::optional<Ratio> paired_speed(const Row& subject, const Row& reference, const Standard& = {});
}  // namespace optrush
