// The roofline model (Williams, Waterman, Patterson 2009): memory limits a phase with few FLOPs per byte, and
// arithmetic limits the others.
#include "report/sections/roofline.h"

#include <algorithm>

#include "analysis/numbers/format.h"

namespace optrush {
double Roof::at(double intensity) const { return std::min(flops, intensity * bandwidth); }

std::optional<Roof> roof_of(const Json& context, const std::string& dtype) {
  const auto bandwidth = bandwidth_of(context), peak = peak_of_dtype(context, dtype);
  return bandwidth && peak ? std::optional(Roof{*peak, *bandwidth}) : std::nullopt;
}

std::vector<RooflinePoint> roofline_points(const Analysis& a) {
  std::vector<RooflinePoint> points;
  for (const Row& row : a.rows) {
    const std::string& dtype = a.spec(row).train.dtype;
    const auto roof = roof_of(a.context, dtype);
    if (!row.ok() || !row.work || !roof) continue;
    for (const auto& [name, seconds] : row.phases) {
      const bool forward = name == "forward";
      if ((!forward && name != "backward") || seconds.value_or(0) <= 0) continue;
      const auto [bytes, flops] = forward ? row.work->forward : row.work->backward;
      points.push_back({&row, name, dtype, flops / bytes, flops / *seconds, *roof});
    }
  }
  return points;
}

Section roofline_section(const Analysis& a) {
  Section section{.title = "Roofline",
                  .lead = "This section compares each phase with the limits of memory and arithmetic.",
                  .chart = "roofline"};
  const auto points = roofline_points(a);
  if (points.empty()) return section;
  section.caption =
      "The chart shows FLOP/s against FLOPs per byte on logarithmic axes. The line is the limit of the "
      "machine.";
  const Roof& roof = points.front().roof;
  section.paragraphs = {
      "Measured limits: " + grouped(roof.bandwidth / 1e9) + " GB/s and, in " + points.front().dtype + ", " +
      flops_rate(roof.flops) + ". They meet at " + grouped(roof.ridge()) +
      " FLOPs per byte: a phase with fewer is bound by memory. Bytes and FLOPs are the least that any "
      "implementation needs."};
  section.bullets = {
      "A share above 100 % has one of two causes: a cache served the bytes, or other programs slowed the "
      "machine while its limits were measured."};
  section.table =
      Table({"rung", "phase", ">FLOPs per byte", "bound by", ">GB/s", ">FLOP/s", ">of the limit"});
  for (const auto& point : points)
    section.table->rows.push_back({point.row->name, point.phase, grouped(point.intensity),
                                   point.memory_bound() ? "memory" : "arithmetic",
                                   fixed(point.flops / point.intensity / 1e9, 2), flops_rate(point.flops),
                                   percent(point.share())});
  return section;
}
}  // namespace optrush
