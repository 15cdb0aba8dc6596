#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/numbers/statistics.h"

namespace optrush {
struct Analysis;

/// weak: each rank keeps its batch, so that the global one grows. strong: the global batch stays.
enum class Scaling : uint8_t { weak, strong };
std::string_view to_string(Scaling);

struct ScalingPoint {
  int64_t variant = 0, ranks = 1;
  int64_t global_batch = 0;      ///< sequences of a step
  std::optional<Ratio> speedup;  ///< tokens/s over those of the series' fewest ranks, paired by round; none
                                 ///< for these
  double growth = 1;             ///< of the hardware, over that of the fewest ranks
  double efficiency = 1;         ///< speedup over that growth
};

/// Rows that differ in nothing but their number of ranks, and in what that makes of their batches.
struct ScalingSeries {
  Scaling kind = Scaling::weak;
  std::string name;                  ///< what connects the ranks: a plugin, mostly
  std::vector<ScalingPoint> points;  ///< two at least, by rising ranks

  const ScalingPoint& largest() const { return points.back(); }
  /// Name and kind: "data parallel, weak scaling".
  std::string title() const;
};

/// Of the rows that ended well. A rung of one rank belongs to those above it that add what connects ranks.
std::vector<ScalingSeries> find_scaling(const Analysis&);
}  // namespace optrush
