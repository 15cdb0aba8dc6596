#include "without_override_warnings.h"

#include <string>

namespace optrush {
void WithoutOverrideWarnings::process(const c10::Warning& warning) {
  if (warning.msg().find("Overriding a previously registered kernel") == std::string::npos)
    others_.process(warning);
}
}  // namespace optrush
