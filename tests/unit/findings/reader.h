// Checks the opening sentences of a report against its table, independently of the code that writes them. An
// unknown sentence is an error.
#pragma once
#include "report/analysis/analysis.h"

namespace optrush::test {
/// Checks the findings and the headline of an analysis. Each wrong statement fails the test.
void read_findings(const Analysis&);
}  // namespace optrush::test
