#pragma once
#include <string>

namespace optrush {
/// An Error where a run's spec must not set this environment variable: its name is none, or it is one that
/// the program, a launcher or another setting decides. The Error says what to do instead.
void check_run_variable(const std::string& name, const std::string& where);
}  // namespace optrush
