#include "worker/commands.h"

#include <ATen/Parallel.h>

#include <iostream>
#include <vector>

#include "base/files.h"
#include "base/number_text.h"
#include "base/text.h"
#include "machine/cores.h"
#include "machine/environment.h"
#include "machine/stand_in.h"
#include "measure/machine.h"
#include "plugin/description.h"
#include "results/context.h"
#include "results/run_result.h"
#include "worker/device.h"

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

/// Sections with a title beside their first line.
class Page {
 public:
  void section(const std::string& title) { title_ = title; }
  void line(const std::string& text) {
    constexpr size_t kMargin = 12;
    std::string margin = title_ + std::string(title_.size() < kMargin ? kMargin - title_.size() : 1, ' ');
    title_.clear();
    text_ += margin + text + "\n";
  }
  void gap() { text_ += "\n"; }
  const std::string& text() const { return text_; }

 private:
  std::string title_, text_;
};

void cpu_section(Page& page, const CpuInfo& cpu) {
  page.section("CPU");
  std::string line = cpu.name + ", " + counted(cpu.cores, "core");
  if (cpu.threads != cpu.cores) line += " (" + counted(cpu.threads, "thread") + ")";
  page.line(line + ", " + bytes(static_cast<double>(cpu.memory_bytes)) + " memory");
  page.line(join(cpu.isa, " "));
  std::vector<std::string> rest;
  if (cpu.cache_bytes) rest.push_back("last-level cache " + bytes(static_cast<double>(*cpu.cache_bytes)));
  if (cpu.governor) rest.push_back("governor " + *cpu.governor);
  if (cpu.huge_pages) rest.push_back("huge pages " + *cpu.huge_pages);
  if (!rest.empty()) page.line(join(rest));
}

void gpu_section(Page& page, const Context& context) {
  page.section("GPU");
  for (const GpuInfo& gpu : context.gpus) {
    std::vector<std::string> facts = {gpu.name, bytes(static_cast<double>(gpu.memory_bytes)), gpu.sm};
    if (gpu.multiprocessors) facts.push_back(counted(*gpu.multiprocessors, "multiprocessor"));
    if (gpu.driver) facts.push_back("driver " + *gpu.driver);
    page.line(join(facts));
    facts.clear();
    if (gpu.clock_mhz && gpu.max_clock_mhz)
      facts.push_back(std::to_string(*gpu.clock_mhz) + " of " + std::to_string(*gpu.max_clock_mhz) + " MHz");
    if (gpu.power_limit_watts) facts.push_back("limit " + grouped(*gpu.power_limit_watts) + " W");
    if (gpu.ecc) facts.emplace_back(*gpu.ecc ? "ECC on" : "ECC off");
    if (!facts.empty()) page.line("  " + join(facts));
  }
  if (context.no_cuda) page.line("not usable: " + *context.no_cuda);
}

void software_section(Page& page, const Context& context) {
  page.section("Software");
  const std::string &built = context.torch, &found = context.torch_found;
  std::string torch = "LibTorch " + (found.empty() ? built : found + " (built for " + built + ")");
  if (context.cuda != "none") torch += ", CUDA " + context.cuda;
  if (context.nccl) torch += ", NCCL " + *context.nccl;
  page.line(torch + ", CPU kernels for " + context.torch_cpu_capability);
  page.line("built by " + context.compiler + ", malloc of " + context.malloc + ", " +
            counted(context.threads.value_or(0), "CPU thread"));
}

/// "bf16 692 TFLOP/s for 3.00 s of 8192 x 8192 x 8192: 698 W of 700 W, 1605 MHz, at the power cap"
std::string sustained_line(const SustainedContext& product) {
  std::vector<std::string> sizes, facts;
  for (const int64_t size : product.shape) sizes.push_back(std::to_string(size));
  if (product.watts)
    facts.push_back(grouped(*product.watts) + " W" +
                    (product.power_limit_watts ? " of " + grouped(*product.power_limit_watts) + " W" : ""));
  if (product.sm_clock_mhz) facts.push_back(fixed(*product.sm_clock_mhz, 0) + " MHz");
  if (product.at_power_cap >= kAtPowerCap) facts.emplace_back("at the power cap");
  return product.dtype + " " + flops_rate(product.flops_per_second.value_or(0)) + " sustained for " +
         duration(product.seconds.value_or(0)) + " of " + join(sizes, " x ") +
         (facts.empty() ? "" : ": " + join(facts));
}

void peak_section(Page& page, const Context& context) {
  const PeakContext& peak = context.peak;
  page.section("Matmul");
  if (is_stand_in(peak.device)) {
    page.line(kNothingComputed);
    return;
  }
  std::vector<std::string> rates;
  for (const auto& [dtype, flops] : peak.dtype_flops) rates.push_back(dtype + " " + flops_rate(flops));
  page.line(join(rates) + ", measured on " + peak.device);
  for (const SustainedContext& product : peak.sustained) page.line(sustained_line(product));
  page.line("MFU divides by " + flops_rate(peak.mfu_denominator.value_or(0)) + ": the " +
            (peak.source == "table" ? "maker's dense " : "measured ") + peak.mfu_dtype + " peak");
  page.section("Memory");
  page.line(byte_rate(context.bandwidth_bytes_per_second.value_or(0)) + ", measured");
}

void plugin_section(Page& page, const std::vector<PluginContext>& plugins) {
  page.section("Plugins");
  if (plugins.empty()) page.line("none found");
  for (const auto& [name, file, summary, reason] : plugins) {
    const std::string column = name + std::string(name.size() < 26 ? 26 - name.size() : 1, ' ');
    page.line(reason.empty() ? "works   " + column + summary : "no      " + column + reason);
  }
}

void python_section(Page& page, const PythonContext& python) {
  page.section("Python");
  page.line(python.path.empty()
                ? "none"
                : python.path + ", " + (python.version.empty() ? "which does not start" : python.version));
  page.line("compile plugin: " +
            (python.no_compile.empty() ? "available" : "not available, " + python.no_compile));
  page.line("charts: " +
            (python.vl_convert.empty()
                 ? std::string("not available, vl-convert-python is not installed: reports have tables only")
                 : "vl-convert " + python.vl_convert));
}
}  // namespace

std::string doctor_page(const Json& json) {
  const Context context = context_from_json(json, "doctor");
  Page page;
  page.line("Optimization Rush " + context.optrush_version + " on " + context.host + ", " + context.os +
            ", " + context.kernel);
  page.gap();
  cpu_section(page, context.cpu);
  gpu_section(page, context);
  software_section(page, context);
  peak_section(page, context);
  page.gap();
  plugin_section(page, context.plugins);
  page.gap();
  python_section(page, context.python);
  if (!context.warnings.empty()) {
    page.gap();
    page.section("Warnings");
    for (const std::string& warning : context.warnings) page.line(warning);
  }
  return page.text();
}

int doctor_command(const DoctorRequest& request) {
  const at::Device device = open_device(request.device);
  at::set_num_threads(static_cast<int>(request.threads > 0 ? request.threads : usual_threads(1)));
  constexpr double kQuick_s = 2, kMost_s = 120;
  const double probe_s =
      request.quick ? kQuick_s
                    : environment_seconds("OPTRUSH_PROBE_SECONDS", MachineRequest{}.probe_s, kMost_s);
  Json context = machine_context({device, probe_s, request.sustained_s});
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
