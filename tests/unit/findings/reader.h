// Checks the opening sentences of a report against its table, independently of the code that writes them. An
// unknown sentence is an error.
#pragma once
#include <string>
#include <vector>

#include "analysis/analysis.h"

namespace optrush::test {
/// Checks these findings and this headline. Each wrong statement fails the test.
void read(const Analysis&, const std::vector<std::string>& findings, const std::string& headline);
/// Checks the findings and the headline of an analysis.
void read_findings(const Analysis&);
}  // namespace optrush::test
