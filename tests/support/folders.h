#pragma once
#include <string>

namespace optrush::testing {
// Functions, not macros of the command line, so that ccache can share objects between clones.
std::string tests_folder();  ///< tests/ of the source tree
std::string build_folder();
}  // namespace optrush::testing
