#include "worker/machine_offer.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "build_info.h"
#include "measure/cuda_library.h"
#include "measure/gpus.h"
#include "optrush/error.h"
#include "plugin/description.h"

namespace optrush {
namespace {
/// Looks `program` up as a shell does.
bool can_execute(const std::string& program) {
  if (program.find('/') != std::string::npos) return access(program.c_str(), X_OK) == 0;
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

/// "2.11" of "2.11.0+cu130".
std::string minor_version(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

std::string no_compiler() {
  const char* chosen = std::getenv("CXX");
  const std::string compiler = chosen != nullptr ? chosen : "g++";
  return can_execute(compiler) ? "" : compiler + " was not found";
}
}  // namespace

std::string no_python(const PythonTools& python, bool for_gpu) {
  if (python.path.empty()) return "there is no Python environment (./optrush setup makes one)";
  const std::string where = " in " + python.path.string();
  if (python.torch.empty()) return "torch is not installed" + where;
  if (minor_version(python.torch) != minor_version(OPTRUSH_TORCH_VERSION))
    return "torch " + python.torch + where + " is not the " OPTRUSH_TORCH_VERSION " of this build";
  if (for_gpu && !python.headers)
    return "its headers are missing (Python.h)" + where +
           ", with which Triton compiles its launcher (Debian: apt-get install python3-dev; or name a Python "
           "that "
           "has them by OPTRUSH_PYTHON)";
  return "";
}

MachineOffer machine_offer(const PythonTools& python) {
  MachineOffer offer{load_cuda().reason, no_python(python, load_cuda().available), no_compiler()};
  for (const GpuInfo& gpu : visible_gpus(nullptr)) {
    const int64_t capability = std::stoll(gpu.sm.substr(3));
    // Every rank needs it, so the weakest GPU counts.
    offer.compute_capability =
        offer.compute_capability == 0 ? capability : std::min(offer.compute_capability, capability);
  }
  return offer;
}

void check_needs(const RunSpec& spec) {
  const Catalogue catalogue = Catalogue::find(spec.plugin_path);
  for (const PluginUse& use : spec.plugins) {
    const auto& needs = catalogue.at(use.name).needs;
    if (needs.empty()) continue;
    if (const std::string unmet = unmet_needs(needs, machine_offer(find_python_tools())); !unmet.empty())
      throw Skip("plugin '" + use.name + "' " + unmet, "optrush doctor lists what works here");
  }
}
}  // namespace optrush
