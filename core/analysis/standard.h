#pragma once
#include <optional>

#include "analysis/numbers/statistics.h"

namespace optrush {
struct Analysis;
struct Comparison;
struct Experiment;

/// One of the ratios of a comparison.
using Quotient = std::optional<Ratio> Comparison::*;

/// The standard of a single ratio of an experiment. If its rounds end when the intervals are narrow,
/// intervals are wider, because they were looked at after each round.
Standard standard_of(const Experiment&);

/// The standard of all ratios of a report together: their number, and the variance that the pairs have in
/// common in such ratios. Each has the standard of a single ratio before. A race makes no claims, so it keeps
/// that one.
Standard standard_together(const Analysis&, Quotient);
}  // namespace optrush
