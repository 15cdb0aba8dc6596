#pragma once
#include "report/analysis/analysis.h"
#include "report/analysis/variant_runs.h"

namespace optrush {
/// What the runs of one variant say by themselves: medians over its rounds, and what follows from them. Not
/// yet checked by the gate, nor compared with other rows.
Row measured_row(const Stored&, const Variant&, const VariantRuns&);
}  // namespace optrush
