#include <algorithm>
#include <cmath>

#include "base/suggest.h"
#include "base/text.h"
#include "report/analysis/finding_parts.h"
#include "report/numbers/format.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// Time and its share of a step: "12.3 ms (4.1 %)".
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
  Section section{
      .title = "Scaling",
      .chart = "scaling",
      .caption =
          "The chart shows tokens/s relative to the fewest ranks. The dashed line is ideal scaling; "
          "vertical bars are the intervals of the speedups."};
  if (a.scaling.empty()) return section;
  std::vector<std::string> largest;
  for (const ScalingSeries& series : a.scaling)
    largest.push_back(series.title() + ": " + percent(series.largest().efficiency, 0) + " efficient at " +
                      counted(series.largest().ranks, "rank") +
                      (series.largest().speedup->interval ? "" : " (no claim)"));
  section.lead = join(largest, "; ") + ".";
  section.paragraphs = {
      "In weak scaling, each rank keeps its batch and the global batch grows. In strong scaling, the global "
      "batch stays the same. Efficiency is the speedup divided by the growth of the hardware: the number of "
      "GPUs, or the number of CPU threads up to the number of cores."};
  section.table = Table{{{"series"},
                         {"rung"},
                         {"ranks", true},
                         {"hardware", true},
                         {"sequences per step", true},
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
      section.bullets.push_back(name_in_text(row.name) + " (" + counted(row.devices, "rank") + ") " +
                                what_happened(row.status) + ", so the table does not have it.");
  return section;
}
}  // namespace optrush
