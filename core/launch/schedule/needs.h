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
  std::string cure;  ///< how to get it

  auto operator<=>(const MissingPart&) const = default;
};

/// Looks for what external rungs and samples need: Python, the packages of their requirements, the libraries
/// that they preload, the program itself. Each question is asked once.
class Needs {
 public:
  explicit Needs(Interrupts& interrupts) : interrupts_(interrupts) {}

  /// Empty where nothing is missing.
  std::vector<MissingPart> missing(const External&);
  /// Of runs that sample text with the tokenizer of a checkpoint.
  std::vector<MissingPart> missing_for_samples();

 private:
  const std::vector<std::string>& missing_packages_of(const std::string& requirements);
  const std::string& complaint_about(const std::string& library);

  Interrupts& interrupts_;
  std::map<std::string, std::vector<std::string>> packages_;  ///< by file of requirements
  std::map<std::string, std::string> complaints_;             ///< of the loader, by library
};

/// The reason of a run that is skipped for them.
std::string reason_of(const std::vector<MissingPart>&);

/// A UsageError where a wanted rung's program, the compiler or Python that one of its plugins runs, or the
/// package that reads a tokenizer for its sample, is missing: it names what, for which rungs, and the command
/// that installs it. `only`: as of Schedule. What no command brings, such as a GPU, is left to the plans.
void require_what_is_needed(const Expanded&, const std::vector<std::string>& only, Interrupts&);
}  // namespace optrush
