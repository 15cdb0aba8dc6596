#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/numbers/statistics.h"
#include "results/run_result.h"

namespace optrush {
struct Row;

/// The steps of one round that were made interleaved with those of other runs.
struct InterleavedSamples {
  std::string group;  ///< of the runs that were interleaved with each other; "": it ran alone
  /// Tokens/s of the timed steps, by their number and in its order; empty where it ran alone.
  std::vector<std::pair<int64_t, double>> speed;
};
InterleavedSamples interleaved(const RunResult&);

/// Tokens/s over the other's, in the rounds that both have; none where there is no such round. A round is one
/// sample: where both were interleaved in it, the median over the steps of their ratios step by step, else
/// the ratio of their medians. Where they were interleaved in kMinRounds rounds or more, only those count.
std::optional<Ratio> paired_speed(const Row& subject, const Row& reference, const Standard& = {});
}  // namespace optrush
