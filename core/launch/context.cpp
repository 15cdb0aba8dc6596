#include "launch/context.h"
#include "base/host_name.h"

#include "base/files.h"
#include "base/first_line.h"
#include "base/installation.h"
#include "base/text.h"
#include "build_info.h"
#include "launch/result.h"
#include "optrush/error.h"
#include "process/process.h"
#include "process/temporary_folder.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr Limits kDoctorLimits{.timeout_s = 300}, kGitLimits{.timeout_s = 10};

/// What this program was built from: as its installation says, or as its source tree is now; "" where neither
/// tells.
std::string commit(Interrupts& interrupts) {
  const Installation here = Installation::of_this_program();
  if (!here.commit.empty() || here.source.empty()) return here.commit;
  const TemporaryFolder folder;
  const fs::path log = folder.path() / "log.txt";
  try {
    const Command git{{"git", "-C", here.source, "describe", "--always", "--dirty", "--exclude=*"}, {}, log};
    const ProcessEnd end = run_process(git, kGitLimits, interrupts);
    return end.kind == ProcessEnd::Kind::exited && end.code == 0 ? first_line(read_file(log)) : "";
  } catch (const Error&) {  // there is no git
    return "";
  }
}

/// Names of what computes.
std::string cpu_of(const Json& context) {
  const auto cpu = context.find("cpu");
  return cpu != context.end() && cpu->is_object() ? cpu->value("name", "") : "";
}
std::string gpus_of(const Json& context) {
  std::string names;
  if (const auto gpus = context.find("gpus"); gpus != context.end() && gpus->is_array())
    for (const auto& gpu : *gpus) names += (names.empty() ? "" : ", ") + gpu.value("name", "");
  return names.empty() ? "none" : names;
}
/// What the machines of a launcher's job compute with: "2 ranks on Xeon; 2 ranks on Xeon, 2 x H100".
std::string hosts_of(const Json& context) {
  std::string text;
  for (const auto& host : context.at("hosts")) {
    const std::string gpus = host.value("gpus", "");
    text += (text.empty() ? "" : "; ") + std::to_string(host.at("ranks").size()) + " ranks on " +
            host.value("cpu", "") + (gpus.empty() ? "" : ", " + gpus);
  }
  return text;
}
}  // namespace

Json ask_doctor(const RunSpec& base, const fs::path& worker, bool quick, Interrupts& interrupts) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "context.json", log = folder.path() / "log.txt";
  Command command{
      {worker, "doctor", "--json", out, "--device", base.device, "--threads", std::to_string(base.threads)},
      {{"OMP_WAIT_POLICY", "passive"}},
      log};
  if (quick) command.arguments.emplace_back("--quick");
  const ProcessEnd end = run_process(command, kDoctorLimits, interrupts);
  if (end.kind == ProcessEnd::Kind::exited && is_there(out)) return read_json(out);
  return {{"doctor", describe_bad_end(end, kDoctorLimits).reason + "\n" + log_tail(log)}};
}

std::optional<Json> describe_machine(const Experiment& experiment, const fs::path& worker, bool quick,
                                     Interrupts& interrupts) {
  Json context = {{"date", utc_now()},
                  {"optrush_version", OPTRUSH_VERSION},
                  {"commit", commit(interrupts)},
                  {"host", host_name()}};
  if (interrupts.signal() != 0) return std::nullopt;
  context.update(ask_doctor(experiment.base, worker, quick, interrupts));
  if (interrupts.signal() != 0) return std::nullopt;
  context["script"] = experiment.script;
  context["script_sha256"] = experiment.script_sha256;
  return context;
}

std::string difference_of_machines(const Json& there, const Json& here) {
  const auto differ = [](const std::string& what, const std::string& a, const std::string& b) {
    return what + " '" + a + "' there, '" + b + "' here";
  };
  if (cpu_of(there) != cpu_of(here)) return differ("CPU", cpu_of(there), cpu_of(here));
  if (gpus_of(there) != gpus_of(here)) return differ("GPUs", gpus_of(there), gpus_of(here));
  if (there.contains("hosts") && here.contains("hosts") && hosts_of(there) != hosts_of(here))
    return differ("machines", hosts_of(there), hosts_of(here));
  // Where the spec leaves them open, the same spec is another computation.
  const Json mine = here.value("threads", Json()), theirs = there.value("threads", Json());
  if (mine.is_number() && theirs.is_number() && mine != theirs)
    return differ("CPU threads", theirs.dump(), mine.dump());
  return {};
}

std::string difference_of_builds(const Json& there, const Json& here) {
  const auto build = [](const Json& context) {
    const std::string commit = context.value("commit", "");
    return context.value("optrush_version", "") + (commit.empty() ? "" : " (" + commit + ")");
  };
  if (build(there) == build(here)) return {};
  return "runs of more than one build of optrush stand beside each other: " + build(there) + ", and " +
         build(here);
}
}  // namespace optrush
