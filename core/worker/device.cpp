#include "worker/device.h"

#include <algorithm>

#include "base/suggest.h"
#include "machine/environment.h"
#include "machine/visible_gpu.h"
#include "measure/cpu_info.h"
#include "measure/gpus.h"
#include "measure/memory.h"
#include "optrush/error.h"
#ifdef OPTRUSH_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace optrush {
at::Device open_device(const std::string& name, int64_t local_rank) {
  if (name == "cpu") return at::kCPU;
  if (name != "auto" && name != "cuda")
    throw Error(ErrorCode::unknown_name, "unknown device '" + name + "'",
                did_you_mean(name, {"auto", "cpu", "cuda"}));
  if (const auto& cuda = load_cuda(); !cuda) {
    if (name == "auto") return at::kCPU;
    throw Skip("no GPU can be used: " + cuda.reason,
               "use --device cpu; optrush doctor has details, and --dry-run --as-gpu GPU plans without one");
  }
  int visible = 1;
#ifdef OPTRUSH_HAS_CUDA
  cudaGetDeviceCount(&visible);
#endif
  const auto index = static_cast<at::DeviceIndex>(gpu_of(local_rank, visible));
#ifdef OPTRUSH_HAS_CUDA
  cudaSetDevice(index);
  poison_freed_gpu_memory();
#endif
  return {at::kCUDA, index};
}

std::string device_name(at::Device device) {
  if (device.is_cuda()) return visible_gpus(nullptr).at(static_cast<size_t>(device.index())).name;
  return read_cpu().name;
}

std::string gpu_identity([[maybe_unused]] at::Device device) {
#ifdef OPTRUSH_HAS_CUDA
  cudaDeviceProp properties{};
  if (device.is_cuda() && cudaGetDeviceProperties(&properties, device.index()) == cudaSuccess) {
    std::string uuid = host_name() + " ";
    for (const char byte : properties.uuid.bytes) {
      constexpr const char* kDigits = "0123456789abcdef";
      uuid += kDigits[static_cast<unsigned char>(byte) >> 4U];
      uuid += kDigits[static_cast<unsigned char>(byte) & 15U];
    }
    return uuid;
  }
#endif
  return {};
}

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
      throw Skip("plugin '" + use.name + "' " + unmet,
                 "optrush doctor lists the plugins that work here; --dry-run --as-gpu GPU plans for others");
  }
}
}  // namespace optrush
