#include "worker/commands.h"

#include <ATen/Parallel.h>

#include <array>
#include <charconv>
#include <iostream>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "machine/cores.h"
#include "machine/environment.h"
#include "machine/stand_in.h"
#include "measure/machine.h"
#include "plugin/description.h"
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

/// Three significant digits, or all digits before the point; independent of the locale.
std::string number(double value) {
  std::array<char, 64> text{};
  const int digits = value < 10 ? 2 : value < 100 ? 1 : 0;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits).ptr;
  return {text.data(), end};
}

std::string scaled(double value, const std::vector<std::pair<double, const char*>>& units) {
  for (const auto& [size, unit] : units)
    if (value >= size) return number(value / size) + " " + unit;
  return number(value) + " " + units.back().second;
}
std::string bytes(const Json& value) {
  return scaled(value, {{1024.0 * 1024 * 1024, "GiB"}, {1024.0 * 1024, "MiB"}, {1024.0, "KiB"}});
}
std::string rate(double value) { return scaled(value, {{1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}}); }
std::string count(const Json& value, const std::string& noun) {
  return value.dump() + " " + noun + (value == 1 ? "" : "s");
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

void cpu_section(Page& page, const Json& cpu) {
  page.section("CPU");
  std::string line = cpu.at("name").get<std::string>() + ", " + count(cpu.at("cores"), "core");
  if (cpu.at("threads") != cpu.at("cores")) line += " (" + count(cpu.at("threads"), "thread") + ")";
  page.line(line + ", " + bytes(cpu.at("memory_bytes")) + " memory");
  page.line(join(cpu.at("isa"), " "));
  std::vector<std::string> rest;
  if (!cpu.at("cache_bytes").is_null()) rest.push_back("last-level cache " + bytes(cpu.at("cache_bytes")));
  if (!cpu.at("governor").is_null()) rest.push_back("governor " + cpu.at("governor").get<std::string>());
  if (!cpu.at("huge_pages").is_null())
    rest.push_back("huge pages " + cpu.at("huge_pages").get<std::string>());
  if (!rest.empty()) page.line(join(rest));
}

void gpu_section(Page& page, const Json& context) {
  page.section("GPU");
  for (const Json& gpu : context.at("gpus")) {
    std::vector<std::string> facts = {gpu.at("name"), bytes(gpu.at("memory_bytes")), gpu.at("sm")};
    if (!gpu.at("multiprocessors").is_null())
      facts.push_back(count(gpu.at("multiprocessors"), "multiprocessor"));
    if (!gpu.at("driver").is_null()) facts.push_back("driver " + gpu.at("driver").get<std::string>());
    page.line(join(facts));
    facts.clear();
    if (!gpu.at("clock_mhz").is_null() && !gpu.at("max_clock_mhz").is_null())
      facts.push_back(gpu.at("clock_mhz").dump() + " of " + gpu.at("max_clock_mhz").dump() + " MHz");
    if (!gpu.at("power_limit_watts").is_null())
      facts.push_back("limit " + number(gpu.at("power_limit_watts")) + " W");
    if (!gpu.at("ecc").is_null()) facts.emplace_back(gpu.at("ecc") ? "ECC on" : "ECC off");
    if (!facts.empty()) page.line("  " + join(facts));
  }
  if (const Json& reason = context.at("no_cuda"); !reason.is_null())
    page.line("not usable: " + reason.get<std::string>());
}

void software_section(Page& page, const Json& context) {
  page.section("Software");
  const std::string built = context.at("torch"), found = context.value("torch_found", "");
  std::string torch = "LibTorch " + (found.empty() ? built : found + " (built for " + built + ")");
  if (const std::string cuda = context.at("cuda"); cuda != "none") torch += ", CUDA " + cuda;
  if (!context.at("nccl").is_null()) torch += ", NCCL " + context.at("nccl").get<std::string>();
  page.line(torch + ", CPU kernels for " + context.at("torch_cpu_capability").get<std::string>());
  page.line("built by " + context.at("compiler").get<std::string>() + ", malloc of " +
            context.at("malloc").get<std::string>() + ", " + count(context.at("threads"), "CPU thread"));
}

/// "bf16 692 TFLOP/s for 3.00 s of 8192 x 8192 x 8192: 698 W of 700 W, 1605 MHz, at the power cap"
std::string sustained_line(const Json& product) {
  const Json& shape = product.at("shape");
  std::string line = product.at("dtype").get<std::string>() + " " + rate(product.at("flops_per_second")) +
                     " sustained for " + number(product.at("seconds")) + " s of " + shape.at(0).dump() +
                     " x " + shape.at(1).dump() + " x " + shape.at(2).dump();
  std::vector<std::string> facts;
  if (!product.at("watts").is_null())
    facts.push_back(number(product.at("watts")) + " W" +
                    (product.at("power_limit_watts").is_null()
                         ? ""
                         : " of " + number(product.at("power_limit_watts")) + " W"));
  if (!product.at("sm_clock_mhz").is_null()) facts.push_back(number(product.at("sm_clock_mhz")) + " MHz");
  if (product.at("at_power_cap").is_number() && product.at("at_power_cap") >= kAtPowerCap)
    facts.emplace_back("at the power cap");
  return facts.empty() ? line : line + ": " + join(facts);
}

void peak_section(Page& page, const Json& context) {
  const Json& peak = context.at("peak");
  page.section("Matmul");
  if (is_stand_in(peak.at("device").get<std::string>())) {
    page.line(kNothingComputed);
    return;
  }
  std::vector<std::string> rates;
  for (const auto& [dtype, flops] : peak.at("dtype_flops").items())
    rates.push_back(dtype + " " + rate(flops));
  page.line(join(rates) + ", measured on " + peak.at("device").get<std::string>());
  for (const Json& product : peak.value("sustained", Json::array())) page.line(sustained_line(product));
  page.line("MFU divides by " + rate(peak.at("mfu_denominator")) + ": the " +
            (peak.at("source") == "table" ? "maker's dense " : "measured ") +
            peak.at("mfu_dtype").get<std::string>() + " peak");
  page.section("Memory");
  page.line(number(context.at("bandwidth_bytes_per_second").get<double>() / 1e9) + " GB/s, measured");
}

void plugin_section(Page& page, const Json& context) {
  page.section("Plugins");
  if (context.at("plugins").empty()) page.line("none found");
  for (const Json& plugin : context.at("plugins")) {
    const std::string name = plugin.at("name"), reason = plugin.at("reason");
    const std::string column = name + std::string(name.size() < 26 ? 26 - name.size() : 1, ' ');
    page.line(reason.empty() ? "works   " + column + plugin.at("summary").get<std::string>()
                             : "no      " + column + reason);
  }
}

void python_section(Page& page, const Json& context) {
  const Json& python = context.at("python");
  page.section("Python");
  const std::string path = python.at("path"), version = python.at("version"),
                    renderer = python.at("vl_convert");
  page.line(path.empty() ? "none" : path + (version.empty() ? ", which does not start" : ", " + version));
  const std::string missing = python.at("no_compile");
  page.line("compile plugin: " + (missing.empty() ? "available" : "not available, " + missing));
  page.line("charts: " +
            (renderer.empty()
                 ? std::string("not available, vl-convert-python is not installed: reports have tables only")
                 : "vl-convert " + renderer));
}
}  // namespace

std::string doctor_page(const Json& context) {
  Page page;
  page.line("Optimization Rush " + context.at("optrush_version").get<std::string>() + " on " +
            context.at("host").get<std::string>() + ", " + context.at("os").get<std::string>() + ", " +
            context.at("kernel").get<std::string>());
  page.gap();
  cpu_section(page, context.at("cpu"));
  gpu_section(page, context);
  software_section(page, context);
  peak_section(page, context);
  page.gap();
  plugin_section(page, context);
  page.gap();
  python_section(page, context);
  if (!context.at("warnings").empty()) {
    page.gap();
    page.section("Warnings");
    for (const Json& warning : context.at("warnings")) page.line(warning);
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
