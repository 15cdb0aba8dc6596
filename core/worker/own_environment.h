#pragma once
#include <map>
#include <string>

namespace optrush {
/// Makes sure that this process has these environment variables. Libraries read theirs while the program is
/// loaded, so where one differs the program starts anew as this process, with `arguments`, and this does not
/// return.
void own_environment(const std::map<std::string, std::string>& variables, char** arguments);
}  // namespace optrush
