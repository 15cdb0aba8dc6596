#include "plugin/needs.h"

#include <unistd.h>

#include <cstdlib>

#include "base/text.h"
#include "build_info.h"
#include "machine/environment.h"
#include "machine/torch_folder.h"

namespace optrush {
std::string no_python(const PythonTools& python, bool for_gpu) {
  if (python.path.empty()) return "no Python environment was found (run ./optrush setup)";
  const std::string where = " in " + python.path.string();
  if (python.torch.empty()) return "torch is not installed" + where;
  if (minor_version(python.torch) != minor_version(OPTRUSH_TORCH_VERSION))
    return "torch " + python.torch + where + " is not the " OPTRUSH_TORCH_VERSION " of this build";
  if (for_gpu && !python.headers)
    return "the Python headers (Python.h) are missing" + where +
           "; Triton needs them (Debian: apt-get install python3-dev; or set OPTRUSH_PYTHON to a Python that "
           "has them)";
  return "";
}

bool can_execute(const std::string& program, const std::filesystem::path& folder) {
  if (program.find('/') != std::string::npos) return access((folder / program).c_str(), X_OK) == 0;
  for (const std::string& each : split(environment_variable("PATH"), ":"))
    if (access((std::filesystem::path(each) / program).c_str(), X_OK) == 0) return true;
  return false;
}

std::string no_compiler() {
  const char* chosen = std::getenv("CXX");
  const std::string compiler = chosen != nullptr ? chosen : "g++";
  return can_execute(compiler) ? "" : compiler + " was not found (Debian: apt-get install g++)";
}

std::vector<std::string> need_names() {
  return {"cuda", "sm_80", "sm_89", "sm_90", "sm_100", "python", "compiler"};
}

std::string unmet_needs(const std::vector<std::string>& needs, const MachineOffer& offer) {
  std::vector<std::string> reasons;
  const auto demand = [&](const std::string& what, const std::string& missing) {
    if (!missing.empty()) reasons.push_back("needs " + what + ": " + missing);
  };
  for (const auto& need : needs) {
    if (need == "cuda") demand("CUDA", offer.no_cuda);
    if (need == "python") demand("Python", offer.no_python);
    if (need == "compiler") demand("a C++ compiler", offer.no_compiler);
    if (!need.starts_with("sm_")) continue;
    if (!offer.no_cuda.empty())
      demand("a GPU of " + need, offer.no_cuda);
    else if (offer.compute_capability < std::stoll(need.substr(3)))
      demand("a GPU of " + need + " or newer", "this GPU is sm_" + std::to_string(offer.compute_capability));
  }
  return join(reasons, "; ");
}
}  // namespace optrush
