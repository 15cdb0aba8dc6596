#pragma once
#include <map>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "process/signals.h"

namespace optrush {
/// Something that a program or a plugin needs and this machine lacks.
struct MissingPart {
  std::string what;  ///< "transformers is not installed in /…/python"
  std::string cure;  ///< how to install it

  auto operator<=>(const MissingPart&) const = default;
};

/// Checks the requirements of external programs: Python, packages, preloaded libraries, the program. Each
/// question is asked once.
class Needs {
 public:
  explicit Needs(Interrupts& interrupts) : interrupts_(interrupts) {}

  std::vector<MissingPart> missing(const External&);

 private:
  Interrupts& interrupts_;
  std::map<std::string, std::vector<std::string>> packages_;  ///< missing packages, by requirements file
  std::map<std::string, std::string> complaints_;             ///< messages of the loader, by library
};

std::string reason_of(const std::vector<MissingPart>&);

/// Throws a UsageError if a wanted rung's program, the compiler or Python of one of its plugins, or the
/// package that reads a tokenizer for its sample is missing, with the command that installs it. `only`: as in
/// Schedule. Requirements that no command can install, such as a GPU, are left to the plans.
void require_what_is_needed(const Expanded&, const std::vector<std::string>& only, Interrupts&);
}  // namespace optrush
