// Reads the sentences that a report opens with against its table, and knows nothing of the code that wrote
// them. A sentence that it does not know is an error.
#pragma once
#include "report/analysis/analysis.h"

namespace optrush::test {
/// The findings and the headline of an analysis; a failure of the test for each thing that is not so.
void read_findings(const Analysis&);
}  // namespace optrush::test
