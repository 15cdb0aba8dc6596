#include "worker/commands.h"

#include <ATen/Parallel.h>

#include <iostream>

#include "base/files.h"
#include "machine/cores.h"
#include "machine/environment.h"
#include "measure/machine.h"
#include "plugin/description.h"
#include "worker/device.h"
#include "worker/doctor_page.h"
#include "worker/machine_offer.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
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
  at::set_num_threads(static_cast<int>(request.threads > 0 ? request.threads : usual_threads(1)));
  constexpr double kQuick_s = 2, kMost_s = 120;
  const double probe_s =
      request.quick ? kQuick_s
                    : environment_seconds("OPTRUSH_PROBE_SECONDS", MachineRequest{}.probe_s, kMost_s);
  Json context = machine_context({device, probe_s});
  const PythonTools python = find_python_tools();
  const MachineOffer offer = machine_offer(python);
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
