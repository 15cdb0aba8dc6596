#include "worker/doctor_command.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <thread>

#include "base/files.h"
#include "base/python.h"
#include "build_info.h"
#include "measure/cuda_library.h"
#include "measure/machine.h"
#include "plugin/description.h"
#include "plugin/needs.h"
#include "worker/device.h"
#include "worker/doctor_page.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// Looks `program` up as a shell does.
bool can_execute(const std::string& program) {
  if (program.find('/') != std::string::npos) return access(program.c_str(), X_OK) == 0;
  const char* variable = std::getenv("PATH");
  std::string path = variable != nullptr ? variable : "";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    if (access((fs::path(path.substr(begin, end - begin)) / program).c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  return false;
}

std::string no_python(const PythonTools& python) {
  if (python.path.empty()) return "there is no Python environment (./optrush setup makes one)";
  const std::string where = " in " + python.path.string();
  if (python.torch.empty()) return "torch is not installed" + where;
  // "2.11.0+cu130" is 2.11.0.
  if (python.torch.substr(0, python.torch.find('+')) != OPTRUSH_TORCH_VERSION)
    return "torch " + python.torch + where + " is not the " OPTRUSH_TORCH_VERSION " of this build";
  return "";
}

std::string no_compiler() {
  const char* chosen = std::getenv("CXX");
  const std::string compiler = chosen != nullptr ? chosen : "g++";
  return can_execute(compiler) ? "" : compiler + " was not found";
}

MachineOffer offer_of(const PythonTools& python, const Json& context) {
  MachineOffer offer{load_cuda().reason, no_python(python), no_compiler()};
  for (const Json& gpu : context.at("gpus")) {
    const int64_t capability = std::stoll(gpu.at("sm").get<std::string>().substr(3));
    // Every rank needs it, so the weakest GPU counts.
    offer.compute_capability =
        offer.compute_capability == 0 ? capability : std::min(offer.compute_capability, capability);
  }
  return offer;
}

Json plugins_here(const std::vector<std::string>& folders, const MachineOffer& offer) {
  Json list = Json::array();
  const auto add = [&](const std::string& name, const fs::path& file, const std::string& summary,
                       const std::string& reason) {
    list.push_back({{"name", name}, {"file", file.string()}, {"summary", summary}, {"reason", reason}});
  };
  const Catalogue catalogue = Catalogue::find(folders);
  for (const auto& plugin : catalogue.plugins())
    add(plugin.name, plugin.file, plugin.summary, unmet_needs(plugin.needs, offer));
  for (const auto& [file, reason] : catalogue.unusable()) add(file.filename(), file, "", reason);
  return list;
}
}  // namespace

int doctor_command(const DoctorRequest& request) {
  const at::Device device = open_device(request.device);
  const int64_t every_core = std::thread::hardware_concurrency();
  at::set_num_threads(static_cast<int>(request.threads > 0 ? request.threads : every_core));
  Json context = machine_context({device, request.quick});
  const PythonTools python = find_python_tools();
  const MachineOffer offer = offer_of(python, context);
  context["plugins"] = plugins_here(request.plugin_path, offer);
  context["python"] = {{"path", python.path.string()},
                       {"version", python.version},
                       {"torch", python.torch},
                       {"vl_convert", python.vl_convert},
                       {"no_compile", offer.no_python.empty() ? offer.no_compiler : offer.no_python}};
  if (!request.json.empty()) write_json(request.json, context);
  std::cout << doctor_page(context) << std::flush;
  return 0;
}
}  // namespace optrush
