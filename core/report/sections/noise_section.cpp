#include "base/text.h"
#include "report/analysis/noise.h"
#include "report/numbers/format.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
std::string about_gpu(const GpuSteps& gpu) {
  const std::string text =
      "The runs were on a GPU, and these figures are of the CPU, which only starts its work. ";
  if (!gpu.spread)
    return text + "No run has five timed steps of equal work, so the steadiness of the GPU is not known.";
  return text + "On the GPU, equal steps of a run varied by " + percent(*gpu.spread) +
         " in time (median of " + counted(static_cast<int64_t>(gpu.runs), "run") + "; quiet: below " +
         percent(kQuietSpread, 0) + ").";
}
}  // namespace

Section noise_section(const Analysis& a) {
  Section section{.title = "The machine's noise"};
  if (!a.noise) return section;
  const Noise& noise = *a.noise;
  const std::string judged = a.gpu ? "The CPU" : "The machine";
  section.lead = judged + (noise_warning(noise).empty() ? " was quiet." : " was not quiet.");
  section.paragraphs = {
      "Between rounds, the program timed equal pieces of work of about 10 ms on every core."};
  if (a.gpu) section.paragraphs.push_back(about_gpu(*a.gpu));
  Table table{{{"figure"}, {"value", true}, {"quiet machine"}}, {}};
  const auto add = [&](const char* what, const std::string& value, const std::string& quiet) {
    table.rows.push_back({what, value, quiet});
  };
  add("probes", std::to_string(noise.probes), "");
  add("spread of equal pieces", percent(noise.spread), "below " + percent(kQuietSpread, 0));
  add("change between probes", percent(noise.drift), "below " + percent(kQuietDrift, 0));
  if (noise.stolen)
    add("stolen by the hypervisor", percent(*noise.stolen), "below " + percent(kQuietStolen, 0));
  if (noise.waiting)
    add("other tasks waited for a CPU during the probe", percent(*noise.waiting),
        "below " + percent(kQuietWaiting, 0));
  if (noise.running) add("most other running tasks before a probe", fixed(*noise.running, 0), "0");
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
  if (noise.settings.contains("huge_pages"))
    add("transparent huge pages", noise.settings["huge_pages"].get<std::string>(), "");
  section.table = std::move(table);
  return section;
}
}  // namespace optrush
