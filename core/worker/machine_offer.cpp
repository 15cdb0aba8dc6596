#include "worker/machine_offer.h"

#include <algorithm>

#include "measure/cuda_library.h"
#include "measure/gpus.h"
#include "optrush/error.h"

namespace optrush {
MachineOffer machine_offer(const PythonTools& python) {
  MachineOffer offer{load_cuda().reason, no_python(python, load_cuda().available), no_compiler()};
  for (const GpuInfo& gpu : visible_gpus(nullptr)) {
    const int64_t capability = std::stoll(gpu.sm.substr(3));
    // Every rank needs the capability, so the lowest counts.
    offer.compute_capability =
        offer.compute_capability == 0 ? capability : std::min(offer.compute_capability, capability);
  }
  return offer;
}

void check_needs(const RunSpec& spec, const Catalogue& catalogue) {
  for (const PluginUse& use : spec.plugins) {
    const auto& needs = catalogue.at(use.name).needs;
    if (needs.empty()) continue;
    if (const std::string unmet = unmet_needs(needs, machine_offer(find_python_tools())); !unmet.empty())
      throw Skip("plugin '" + use.name + "' " + unmet, "optrush doctor lists the plugins that work here");
  }
}
}  // namespace optrush
