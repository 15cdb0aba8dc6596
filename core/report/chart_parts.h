#pragma once
#include <string>
#include <vector>

#include "report/document.h"
#include "report/theme.h"

namespace optrush {
/// Longer names of rungs end in "…" in a chart, at this many pixels; the tables have them whole.
inline constexpr int kNameWidth = 300;
/// Of what is drawn, without the names beside it.
inline constexpr int kChartWidth = 560;

/// What all charts share: title, size, theme, and margins for fonts that are wider than the one that was
/// measured with.
Json chart_of(const Analysis&, const std::string& title, const std::string& subtitle, Json values,
              Json layers);
/// The same with panels below each other in place of layers.
Json chart_of_panels(const Analysis&, const std::string& title, const std::string& subtitle, Json values,
                     Json panels);
/// The rungs from top to bottom.
Json rung_axis(const std::vector<const Row*>&);
Json quantity(const std::string& field, const std::string& title);
/// Steps from left to right, over those of `values` that have one.
Json step_axis(const Json& values);
/// Dashed, across the picture of a loss, with its name.
Json target_line(double target);
/// Below the chart, side by side.
Json legend_below(const Json& title);
/// What tells the lines of a chart apart, in this order: colours, and dashes where the colours come again.
/// The encodings of both, for a field of the values.
Json colour_by(const std::string& field, const std::vector<std::string>& names);
Json dash_by(const std::string& field, const std::vector<std::string>& names);
/// A panel for each name, one below the other, so that nothing covers anything: `layers` in a strip each.
Json strips(const std::string& field, const std::vector<std::string>& names, Json layers);

Json speed_chart(const Analysis&, const std::vector<const Row*>&);
Json memory_chart(const Analysis&, const std::vector<const Row*>&);
/// The curves, and below them how far each rung is from what the gate compares it with.
Json loss_chart(const Analysis&, const std::vector<const Row*>&);
Json throughput_chart(const Analysis&, const std::vector<const Row*>&);
/// Those that time_chart() has a line for, where the experiment asks for the time to a loss or validates.
std::vector<const Row*> rows_over_time(const Analysis&, const std::vector<const Row*>&);
/// The loss over the time that it took to get there.
Json time_chart(const Analysis&, const std::vector<const Row*>&);

/// Rungs that can't be told apart in the picture of the losses: one line for all of them.
struct LossLine {
  const Row* row = nullptr;
  std::vector<const Row*> others;  ///< whose losses are its own, but for a fiftieth of what the picture shows
};
std::vector<LossLine> loss_lines(const std::vector<const Row*>&);

/// Of an analysis that has a scaling.
Json scaling_chart(const Analysis&);
}  // namespace optrush
