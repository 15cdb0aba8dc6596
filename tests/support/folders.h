#pragma once
#include <string>

namespace optrush::testing {
// Functions, not macros of the command line: what is compiled then fits every clone, and ccache shares it.
std::string tests_folder();  ///< tests/ of the source tree
std::string build_folder();
}  // namespace optrush::testing
