#include <algorithm>
#include <set>

#include "analysis/noise.h"
#include "analysis/numbers/format.h"
#include "base/text.h"
#include "report/sections/document.h"
#include "spec/read_fields.h"

namespace optrush {
namespace {
std::string label(std::string key) {
  std::ranges::replace(key, '_', ' ');
  return key;
}

/// A value as text: {"name": "EPYC", "memory_bytes": 2048} becomes "EPYC, memory 2.00 KiB"; "" if it is
/// empty.
std::string text_of(const std::string& key, const Json& value) {
  if (value.is_null() || (value.is_structured() && value.empty())) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer() && !key.ends_with("_bytes")) return value.dump();
  if (value.is_number())
    return key.ends_with("_bytes") ? bytes(value.get<double>()) : grouped(value.get<double>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  std::vector<std::string> parts;
  for (const auto& [name, item] : value.items()) {
    std::string text = text_of(name, item);
    if (text.empty()) continue;
    const std::string bare = name.ends_with("_bytes") ? name.substr(0, name.size() - 6) : name;
    parts.push_back(value.is_array() || name == "name" ? text : label(bare) + " " + text);
  }
  return join(parts, value.is_array() && !value.front().is_object() ? " " : ", ");
}

/// " (read 12.0, write 8.1, copy 11.2, triad 11.9)"; "" if they were not measured.
std::string streams_of(const Json& context) {
  const auto streams = context.find("streams_bytes_per_second");
  if (streams == context.end()) return "";
  const auto text = [](const auto& stream) {
    return stream.key() + " " + grouped(stream.value().template get<double>() / 1e9);
  };
  return " (" + join(texts_of(streams->items(), text)) + ")";
}

void add_peak(const Json& context, Table& table) {
  const auto peak = context.find("peak");
  if (peak == context.end()) return;
  std::vector<std::string> rates;
  if (const auto dtypes = peak->find("dtype_flops"); dtypes != peak->end())
    for (const auto& [dtype, flops] : dtypes->items())
      if (flops.is_number()) rates.push_back(dtype + " " + flops_rate(flops.get<double>()));
  if (!rates.empty()) table.rows.push_back({"matmul peak, measured", join(rates)});
  table.rows.push_back({"MFU divides by", mfu_peak_text(context)});
}

/// Adds the machines of a job on several machines.
void add_hosts(const Json& context, Table& table) {
  const auto hosts = context.find("hosts");
  if (hosts == context.end()) return;
  for (const auto& host : *hosts) {
    const auto ranks = texts_of(host.at("ranks"), [](const Json& rank) { return rank.dump(); });
    std::vector<std::string> parts = {(ranks.size() == 1 ? "rank " : "ranks ") + join(ranks, " ")};
    for (const char* key : {"cpu", "gpus"})
      if (const std::string text = host.value(key, ""); !text.empty()) parts.push_back(text);
    table.rows.push_back({"host " + host.at("name").get<std::string>(), join(parts)});
  }
}

void add_plugins(const Analysis& a, Table& table) {
  std::set<std::string> seen;
  for (const auto& run : a.runs)
    for (const UsedPlugin& plugin : run.result.plugins)
      if (seen.insert(plugin.name + plugin.version + plugin.sha256).second)
        table.rows.push_back(
            {"plugin " + plugin.name, plugin.version + ", sha256 " + plugin.sha256 + ", " + plugin.file});
}

std::string about_gpu(const GpuSteps& gpu) {
  if (!gpu.spread) return "No run has five timed steps of equal work.";
  return "On the GPU, equal steps of a run varied by " + percent(*gpu.spread) + " in time (median of " +
         counted(gpu.runs, "run") + "; quiet: below " + percent(kQuietSpread, 0) + ").";
}
}  // namespace

std::string mfu_peak_text(const Json& context) {
  return or_unknown(mfu_denominator(context), [&](double flops) {
    const Json& peak = context.at("peak");
    const auto threads = number(context, "threads");
    const bool of_threads = threads && context.value("gpus", Json::array()).empty();
    return flops_rate(flops) +
           (of_threads ? " of " + exact_number(*threads) + (*threads == 1 ? " CPU thread" : " CPU threads")
                       : " per device") +
           ": " + (peak.value("source", "") == "table" ? "the maker's dense " : "the measured ") +
           peak.value("mfu_dtype", "bf16") + " matmul peak of " + peak.value("device", "the device");
  });
}

Section context_section(const Analysis& a) {
  // Shown elsewhere, or of no use to a reader.
  static const std::set<std::string> kElsewhere = {"peak",
                                                   "bandwidth_bytes_per_second",
                                                   "streams_bytes_per_second",
                                                   "plugins",
                                                   "hosts",
                                                   "python",
                                                   "warnings",
                                                   "script",
                                                   "script_sha256"};
  Section section{.title = "Context", .lead = "This table lists the machine, the software and the plugins."};
  Table table({"what", "value"});
  for (const auto& [key, value] : a.context.items())
    if (const std::string text = text_of(key, value); !text.empty() && !kElsewhere.contains(key))
      table.rows.push_back({label(key), text});
  if (const auto rate = bandwidth_of(a.context))
    table.rows.push_back(
        {"memory bandwidth, measured", grouped(*rate / 1e9) + " GB/s" + streams_of(a.context)});
  if (!a.experiment.program) add_peak(a.context, table);
  add_hosts(a.context, table);
  for (const auto& [name, value] : a.experiment.arguments.items())
    table.rows.push_back({"argument " + name, value.is_string() ? value.get<std::string>() : value.dump()});
  table.rows.push_back({"script", a.experiment.script + ", sha256 " + a.experiment.script_sha256});
  add_plugins(a, table);
  table.rows.push_back({"full spec of every run", "runs/*/spec.json"});
  section.table = std::move(table);
  if (const auto warnings = a.context.find("warnings"); warnings != a.context.end())
    for (const auto& warning : *warnings) section.bullets.push_back("Warning: " + warning.get<std::string>());
  return section;
}

Section noise_section(const Analysis& a) {
  Section section{.title = "The machine's noise"};
  if (a.gpu) {  // the probes are of the CPU, which only starts its work
    section.lead = !a.gpu->spread                ? "The steadiness of the GPU is not known."
                   : gpu_warning(*a.gpu).empty() ? "The GPU was quiet."
                                                 : "The GPU was not quiet.";
    section.bullets = {about_gpu(*a.gpu)};
  }
  if (a.gpu || !a.noise) return section;
  const Noise& noise = *a.noise;
  const std::string slow = slow_probes(noise);
  section.lead = !noise_warning(noise).empty() ? "The machine was not quiet."
                 : slow.empty()                ? "The machine was quiet."
                                               : "The machine was mostly quiet: " + slow + ".";
  section.paragraphs = {
      "Before the first round and after each, the program timed equal pieces of work of about 10 ms on "
      "every core."};
  section.table = Table({"figure", ">value", "quiet machine"});
  const auto add = [&](const char* what, const std::string& value, const std::string& quiet) {
    section.table->rows.push_back({what, value, quiet});
  };
  add("probes", std::to_string(noise.probes), "");
  add("spread of equal pieces", percent(noise.spread), "below " + percent(kQuietSpread, 0));
  add("10th to 90th percentile of the probes", percent(noise.drift), "below " + percent(kQuietDrift, 0));
  if (noise.stolen)
    add("stolen by the hypervisor", percent(*noise.stolen), "below " + percent(kQuietStolen, 0));
  if (noise.waiting)
    add("other tasks waited for a CPU during the probe", percent(*noise.waiting),
        "below " + percent(kQuietWaiting, 0));
  if (noise.running) add("other running tasks before a probe", fixed(*noise.running, 0), "");
  if (noise.throttled)
    add("slowed down because of heat", std::to_string(*noise.throttled) + " times", "0 times");
  if (noise.quota_throttled_us)
    add("stopped by the limit of CPU time", duration(static_cast<double>(*noise.quota_throttled_us) * 1e-6),
        "0 s");
  if (noise.settings.contains("quota_cpus"))
    add("limit of CPU time", fixed(noise.settings["quota_cpus"].get<double>(), 2) + " CPUs", "none");
  if (noise.settings.contains("governor"))
    add("frequency governor", noise.settings["governor"].get<std::string>(), "performance");
  if (noise.settings.contains("mhz"))
    add("clock of the fastest core", std::to_string(noise.settings["mhz"].get<int64_t>()) + " MHz", "");
  return section;
}
}  // namespace optrush
