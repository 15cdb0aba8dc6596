#include "launch/machine/context.h"

#include <algorithm>
#include <set>

#include "base/files.h"
#include "base/seconds_since.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "build_info.h"
#include "launch/run/result.h"
#include "machine/environment.h"
#include "machine/installation.h"
#include "optrush/error.h"
#include "process/process.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr Limits kDoctorLimits{.timeout_s = 300}, kGitLimits{.timeout_s = 10};

/// The commit of this program: from its installation, or from its source tree at present; "" if unknown.
std::string commit(Interrupts& interrupts) {
  const Installation here = Installation::of_this_program();
  if (!here.commit.empty() || here.source.empty()) return here.commit;
  const TemporaryFolder folder;
  const fs::path log = folder.path() / "log.txt";
  try {
    const Command git{{"git", "-C", here.source, "describe", "--always", "--dirty", "--exclude=*"}, {}, log};
    const ProcessEnd end = run_process(git, kGitLimits, interrupts);
    return end.ok() ? first_line(read_file(log)) : "";
  } catch (const Error&) {  // git is not installed
    return "";
  }
}

/// The kinds of GPUs. Their number may change: each run has the number of its ranks.
std::string gpus_of(const Context& context) {
  std::set<std::string> names;
  for (const GpuInfo& gpu : context.gpus) names.insert(gpu.name);
  return names.empty() ? "none" : join({names.begin(), names.end()});
}

/// The kinds of machines of a job: "Xeon", "Xeon with H100". Their number and their ranks may change.
std::set<std::string> kinds_of_hosts(const Context& context) {
  std::set<std::string> kinds;
  for (const HostContext& host : context.hosts) {
    std::set<std::string> gpus;  // of "8 x H100, 1 x A2"
    for (const std::string& gpu : split(host.gpus, ", "))
      gpus.insert(gpu.substr(std::min(gpu.size(), gpu.find(" x ") + 3)));
    kinds.insert(host.cpu + (host.gpus.empty() ? "" : " with " + join({gpus.begin(), gpus.end()})));
  }
  return kinds;
}

/// Share of an experiment's time.
constexpr double kShareOfTime = 0.05;

bool has_peaks(const Json& context) {
  const Json::json_pointer pointer("/peak/dtype_flops");
  return context.contains(pointer) && context.at(pointer).is_object();
}

void note(const fs::path& file, int64_t rounds, const Json& context) {
  const Json line = {{"round", rounds}, {"dtype_flops", context.at("peak").at("dtype_flops")}};
  append_line(file, line.dump());
}
}  // namespace

Json ask_doctor(RunSpec base, ForkServer& workers, bool quick, Interrupts& interrupts) {
  base.environment.clear();  // of runs; without it the plans of most experiments come from the same server
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "context.json", log = folder.path() / "log.txt";
  Command command{{workers.worker(), "doctor", "--json", out, "--device", base.device, "--threads",
                   std::to_string(base.threads)},
                  worker_environment(base),
                  log};
  if (quick) command.arguments.emplace_back("--quick");
  const ProcessEnd end = workers.run(command, kDoctorLimits, interrupts);
  if (end.kind == ProcessEnd::Kind::exited && is_there(out)) return read_json(out);
  return {{"doctor", describe_bad_end(end, kDoctorLimits).reason + "\n" + log_tail(log)}};
}

std::optional<Json> describe_machine(const Experiment& experiment, ForkServer& workers, bool quick,
                                     Interrupts& interrupts) {
  Json context = {{"date", utc_now()},
                  {"optrush_version", OPTRUSH_VERSION},
                  {"commit", commit(interrupts)},
                  {"host", host_name()}};
  if (interrupts.signal() != 0) return std::nullopt;
  context.update(ask_doctor(experiment.base, workers, quick, interrupts));
  if (interrupts.signal() != 0) return std::nullopt;
  context["script"] = experiment.script;
  context["script_sha256"] = experiment.script_sha256;
  return context;
}

std::string difference_of_machines(const Context& there, const Context& here) {
  const auto differ = [](const std::string& what, const std::string& a, const std::string& b) {
    return what + " '" + a + "' there, '" + b + "' here";
  };
  if (there.cpu.name != here.cpu.name) return differ("CPU", there.cpu.name, here.cpu.name);
  if (gpus_of(there) != gpus_of(here)) return differ("GPUs", gpus_of(there), gpus_of(here));
  // A job may have lost machines, or other ones of the same kinds.
  if (const auto before = kinds_of_hosts(there), now = kinds_of_hosts(here);
      !before.empty() && !std::ranges::includes(before, now))
    return differ("machines", join({before.begin(), before.end()}, "; "),
                  join({now.begin(), now.end()}, "; "));
  // Without threads in the spec, another number makes another computation.
  if (there.threads && here.threads && *there.threads != *here.threads)
    return differ("CPU threads", std::to_string(*there.threads), std::to_string(*here.threads));
  return {};
}

std::string difference_of_builds(const Context& there, const Context& here) {
  const auto build = [](const Context& context) {
    return context.optrush_version + (context.commit.empty() ? "" : " (" + context.commit + ")");
  };
  if (build(there) == build(here)) return {};
  return "the report mixes runs of different builds of optrush: " + build(there) + ", and " + build(here);
}

Json with_best_peaks(Json context, const Json& other) {
  if (!has_peaks(context) || !has_peaks(other)) return context;
  Json& peak = context["peak"];
  for (const auto& [dtype, flops] : other.at("peak").at("dtype_flops").items()) {
    Json& own = peak["dtype_flops"][dtype];
    if (flops.is_number() && (!own.is_number() || own < flops)) own = flops;
  }
  // If MFU uses the maker's figure, there is nothing to measure.
  if (peak.value("source", "") == "measured" && other.at("peak").value("source", "") == "measured" &&
      other.at("peak").value("mfu_denominator", 0.0) > peak.value("mfu_denominator", 0.0))
    for (const char* key : {"mfu_dtype", "mfu_denominator"}) peak[key] = other.at("peak").at(key);
  return context;
}

PeakLog::PeakLog(fs::path folder, ForkServer& workers, const RunSpec& base, Interrupts& interrupts)
    : folder_(std::move(folder)), workers_(workers), base_(base), interrupts_(interrupts) {}

std::optional<Json> PeakLog::look(int64_t rounds, const Json& before) {
  const fs::path log = folder_ / "peaks.jsonl";
  if (interrupts_.signal() != 0 || measuring_s_ > kShareOfTime * seconds_since(last_) || !has_peaks(before))
    return std::nullopt;
  last_ = Clock::now();
  const Json now = ask_doctor(base_, workers_, /*quick=*/false, interrupts_);
  measuring_s_ = seconds_since(last_);
  if (interrupts_.signal() != 0 || !has_peaks(now)) return std::nullopt;
  close_torn_line(log);
  if (!fs::exists(log)) note(log, 0, before);
  note(log, rounds, now);
  return with_best_peaks(before, now);
}
}  // namespace optrush
