// The environment of a process of torchrun, mpirun or srun: lines NAME=VALUE.
#include "launch/ranks/launcher.h"

#include <map>
#include <sstream>

#include "target.h"

namespace {
std::map<std::string, std::string> variables_of(const std::string& text) {
  std::map<std::string, std::string> variables;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (const size_t equals = line.find('='); equals != std::string::npos)
      variables[line.substr(0, equals)] = line.substr(equals + 1);
  return variables;
}
}  // namespace

FUZZ_TARGET(launcher) {
  using namespace optrush;
  const auto variables = variables_of(fuzz::text_of(data, size));
  fuzz::feed([&] {
    const auto here = launched([&](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
    });
    if (!here) return;
    fuzz::hold(here->size > 1 && here->rank >= 0 && here->rank < here->size, "a rank is one of the job's");
    fuzz::hold(here->local_size > 0 && here->local_rank >= 0 && here->local_rank < here->local_size,
               "a local rank is one of the machine's");
    fuzz::hold(!here->ports.empty() && here->ports.front() > 0, "rank 0 has a port");
  });
  return 0;
}
