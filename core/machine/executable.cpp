#include "machine/executable.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace optrush {
bool can_execute(const std::string& program, const std::filesystem::path& folder) {
  if (program.find('/') != std::string::npos) return access((folder / program).c_str(), X_OK) == 0;
  const char* variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : "";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    if (access((std::filesystem::path(path.substr(begin, end - begin)) / program).c_str(), X_OK) == 0)
      return true;
    begin = end + 1;
  }
  return false;
}
}  // namespace optrush
