#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/numbers/statistics.h"

namespace optrush {
struct Analysis;

/// weak: the batch per rank is constant, so the global batch grows. strong: the global batch is constant.
enum class Scaling : uint8_t { weak, strong };
std::string_view to_string(Scaling);

struct ScalingPoint {
  int64_t variant = 0, ranks = 1;
  int64_t global_batch = 0;  ///< sequences per step
  /// tokens/s relative to the series' fewest ranks, paired by round; none for these.
  std::optional<Ratio> speedup;
  double growth = 1;      ///< hardware relative to that of the fewest ranks
  double efficiency = 1;  ///< speedup / growth
  /// "87.5 %"; "—" if the ranks share the hardware of the fewest, where nothing could be faster.
  std::string efficiency_text(int digits = 1) const;
};

/// Rows that differ only in their number of ranks and the resulting batches.
struct ScalingSeries {
  Scaling kind = Scaling::weak;
  std::string name;                  ///< what connects the ranks, usually a plugin
  std::vector<ScalingPoint> points;  ///< at least two, by increasing ranks

  const ScalingPoint& largest() const { return points.back(); }
  /// Name and kind: "data parallel, weak scaling".
  std::string title() const;
};

/// The series among the rows that ended well. A rung with one rank belongs to the rungs above it that add
/// ranks.
std::vector<ScalingSeries> find_scaling(const Analysis&);
}  // namespace optrush
