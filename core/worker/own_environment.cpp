#include "worker/own_environment.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "optrush/error.h"

namespace optrush {
namespace {
/// The process that has started anew: once is enough.
constexpr const char* kMark = "OPTRUSH_STARTED_ANEW";

bool has(const std::string& name, const std::string& value) {
  const char* present = std::getenv(name.c_str());
  return present != nullptr && value == present;
}
}  // namespace

void own_environment(const std::map<std::string, std::string>& variables, char** arguments) {
  const std::string self = std::to_string(getpid());
  std::string other;
  for (const auto& [name, value] : variables)
    if (!has(name, value)) other = name;
  if (other.empty()) return;
  if (has(kMark, self))
    throw Error(
        "the environment variable " + other + " can't be set: a library changes it while it is loaded",
        "leave it out of env");
  setenv(kMark, self.c_str(), 1);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  execv("/proc/self/exe", arguments);
  throw Error(std::string("the program can't start anew with its environment: ") + std::strerror(errno));
}
}  // namespace optrush
