#pragma once
#include "report/analysis/analysis.h"
#include "report/analysis/variant_runs.h"

namespace optrush {
/// Computes the row of a variant from its runs: medians over rounds, and values that follow from them. The
/// gate and the comparison with other rows come later.
Row measured_row(const Stored&, const Variant&, const VariantRuns&);
}  // namespace optrush
