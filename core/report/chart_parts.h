#pragma once
#include <string>

#include "report/analysis.h"
#include "report/theme.h"

namespace optrush {
/// Longer names of rungs end in "…" in a chart, at this many pixels; the tables have them whole.
inline constexpr int kNameWidth = 300;

/// What all charts share: title, size, theme, and margins for fonts that are wider than the one that was
/// measured with.
Json chart_of(const Analysis&, const std::string& title, const std::string& subtitle, Json values,
              Json layers);
/// The rungs from top to bottom.
Json rung_axis(const std::vector<const Row*>&);
Json rung_axis(const Analysis&);
Json quantity(const std::string& field, const std::string& title);
/// Below the chart, side by side.
Json legend_below(const Json& title);

Json speed_chart(const Analysis&, const std::vector<const Row*>&);
Json memory_chart(const Analysis&);
Json loss_chart(const Analysis&);

/// Rungs that can't be told apart in the picture of the losses: one line for all of them.
struct LossLine {
  const Row* row = nullptr;
  std::vector<const Row*> others;  ///< whose losses are its own, but for a fiftieth of what the picture shows
};
std::vector<LossLine> loss_lines(const Analysis&);

Json throughput_chart(const Analysis&);
/// Of an analysis that has a scaling.
Json scaling_chart(const Analysis&);
}  // namespace optrush
