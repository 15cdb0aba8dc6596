#pragma once
#include "report/numbers/statistics.h"

namespace optrush {
struct Analysis;
struct Experiment;

/// The standard of a single ratio of an experiment. If its rounds end when the intervals are narrow,
/// intervals are wider, because they were looked at after each round.
Standard standard_of(const Experiment&);

/// The standard of all ratios of a report together, from its rows, programs and scaling series, whose ratios
/// are of standard_of(): the number of intervals, and the variance that the pairs have in common. A race
/// makes no claims, so its standard is that of a single ratio.
Standard standard_together(const Analysis&);
}  // namespace optrush
