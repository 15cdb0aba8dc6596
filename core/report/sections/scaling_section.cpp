#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/suggest.h"
#include "report/numbers/format.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// "12.3 ms (4.1 %)" of a step.
std::string exposed_cell(const Row& row) {
  if (!row.exposed_seconds) return std::string(kUnknown);
  const std::string time = duration(*row.exposed_seconds);
  if (row.step_seconds.value_or(0) <= 0) return time;
  return time + " (" + percent(*row.exposed_seconds / *row.step_seconds) + ")";
}

std::vector<std::string> point_line(const Analysis& a, const ScalingSeries& series,
                                    const ScalingPoint& point) {
  const Row& row = *a.row(point.variant);
  return {series.title(),
          row.name,
          std::to_string(point.ranks),
          exact_number(std::round(point.growth * 100) / 100) + "x",
          std::to_string(point.global_batch),
          or_unknown(row.tokens_per_second, grouped),
          or_unknown(point.speedup, ratio_text),
          percent(point.efficiency),
          exposed_cell(row)};
}
}  // namespace

Section scaling_section(const Analysis& a) {
  Section section{.title = "Scaling",
                  .chart = "scaling",
                  .caption =
                      "Tokens a second over those of the fewest ranks; dashed: ideal scaling, "
                      "bars: the intervals of the speedups."};
  if (a.scaling.empty()) return section;
  std::vector<std::string> largest;
  for (const ScalingSeries& series : a.scaling)
    largest.push_back(series.title() + ": " + percent(series.largest().efficiency, 0) + " efficient at " +
                      counted(series.largest().ranks, "rank"));
  section.lead = join(largest, "; ") + ".";
  section.paragraphs = {
      "Weak: each rank keeps its batch, so that the global one grows. Strong: the global batch stays. The "
      "efficiency is the speedup over the growth of the hardware: of the number of GPUs, or of the threads "
      "of "
      "ranks on a CPU, as far as there are cores for them."};
  section.table = Table{{{"series"},
                         {"rung"},
                         {"ranks", true},
                         {"hardware", true},
                         {"sequences a step", true},
                         {"tokens/s", true},
                         {"speedup", true},
                         {"efficiency", true},
                         {"exposed communication", true}},
                        {}};
  for (const ScalingSeries& series : a.scaling)
    for (const ScalingPoint& point : series.points)
      section.table->rows.push_back(point_line(a, series, point));
  for (const Row& row : a.rows)
    if (!row.ok() && row.started && row.devices > 1)
      section.bullets.push_back("Not in it: " + row.name + " (" + counted(row.devices, "rank") + ", " +
                                std::string(to_string(row.status)) + ")");
  return section;
}
}  // namespace optrush
