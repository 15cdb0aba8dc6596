#include "cli/asking_host.h"

#include <algorithm>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "cli/commands.h"
#include "launch/ledger/resume.h"
#include "launch/ranks/launcher.h"
#include "launch/ranks/remote_ranks.h"
#include "launch/run/run_starter.h"
#include "launch/schedule/planner.h"
#include "machine/cores.h"
#include "optrush/error.h"
#include "process/process.h"
#include "process/terminal.h"
#include "results/run_result.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// Two steps: the second is the first one with the optimizer's state in memory.
constexpr int64_t kWarmup = 1, kSteps = 1;

double peak_of(const RunResult& result) {
  double peak = result.memory.allocated.value_or(0);
  for (const auto& rank : result.ranks) peak = std::max(peak, rank.peak_allocated.value_or(0));
  return peak;
}

constexpr Limits kLimits{.timeout_s = 60};
}  // namespace

AskingHost::AskingHost(RunRequest request, Overrides overrides, bool planned)
    : workers_(request.worker),
      request_(std::move(request)),
      overrides_(std::move(overrides)),
      trials_(request_.reports / "trials.jsonl"),
      model_tokens_([](const std::string& line) { Terminal::of(2).write("optrush: " + line + "\n"); },
                    planned) {
  request_.workers = &workers_;
}

Expanded AskingHost::prepared(const Experiment& described) {
  Experiment experiment = described;
  apply(overrides_, experiment);
  Expanded expanded = model_tokens_.of(std::move(experiment));
  check_restarts(expanded);
  return expanded;
}

std::string AskingHost::key_of(const MemoryTrial& trial) const {
  return sha256(
      Json({trial.script.string(), overrides_.label.value_or(""), to_json(trial.spec), trial.memory_bytes})
          .dump(-1, ' ', true, Json::error_handler_t::replace));
}

std::optional<bool> AskingHost::remembered(const MemoryTrial& trial) const {
  const std::string key = key_of(trial);
  std::optional<bool> answer;
  for (const Json& line : read_json_lines(trials_))
    if (line.value("key", Json()) == key) answer = line.value("holds", Json()) == true;
  return answer;
}

bool AskingHost::try_out(const MemoryTrial& trial) {
  const int64_t devices = trial.spec.train.world_size > 1 ? static_cast<int64_t>(gpus().size()) : 0;
  const TemporaryFolder folder;
  Interrupts interrupts;
  Job job{.id = "trial", .spec = trial.spec};
  job.spec.train.warmup = kWarmup;
  job.spec.train.steps = kSteps;
  job.spec.validate.every = job.spec.save.every = 0;  // not part of a step
  write_json(folder.path() / "spec.json", to_json(job.spec));
  RunStarter starter(request_.worker, request_.remote_ranks, folder.path() / "starts", interrupts);
  starter.machine_has(devices);
  const auto live = starter.start(job, folder.path(), {});
  const auto listen = [&] {
    if (request_.remote_ranks != nullptr) request_.remote_ranks->listen(interrupts);
  };
  const auto ended = live ? finish(*live, job.spec.timeout_s, interrupts, listen) : std::nullopt;
  if (!ended) throw Interrupted(interrupts.signal(), "nothing was run");
  const RunResult& result = *ended;
  if (result.status != Status::ok && result.status != Status::oom)
    throw Error(ErrorCode::unsupported,
                "a trial of micro-batch " + std::to_string(job.spec.train.micro_batch) + " ended as '" +
                    std::string(to_string(result.status)) + "': " + result.reason,
                "leave out trial to use the prediction");
  const double peak = peak_of(result);
  const bool holds = result.status == Status::ok && peak <= trial.memory_bytes;
  fs::create_directories(request_.reports);
  const Json line = {{"key", key_of(trial)},
                     {"script", trial.script.string()},
                     {"micro_batch", job.spec.train.micro_batch},
                     {"memory_bytes", trial.memory_bytes},
                     {"status", std::string(to_string(result.status))},
                     {"peak_bytes", peak},
                     {"holds", holds}};
  close_torn_line(trials_);
  append_line(trials_, line.dump(-1, ' ', true, Json::error_handler_t::replace));
  return holds;
}

MemoryTrial AskingHost::with_tokens(MemoryTrial trial) {
  trial.spec = model_tokens_.of(std::move(trial.spec), "");
  return trial;
}

Json AskingHost::gpu() {
  const Json found = gpus();
  return found.empty() ? Json() : found.front();
}

int64_t AskingHost::ranks(bool on_gpus) {
  if (const auto here = launched()) return here->size;
  return on_gpus ? std::max<int64_t>(1, static_cast<int64_t>(gpus().size())) : usable_cores();
}

Json AskingHost::gpus() {
  if (const auto& gpu = request_.as_gpu) return Json::array({to_json(*gpu)});
  const Json found = ask_worker("gpus");
  return found.is_null() ? Json::array() : found;
}

Json AskingHost::cpu() {
  const Json found = ask_worker("cpu");
  return found.is_null() ? ScriptHost::cpu() : found;
}

Json AskingHost::ask_worker(const std::string& what) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "answer.json";
  Interrupts interrupts;
  workers_.run({{workers_.worker(), what, "--out", out}, worker_environment({}), folder.path() / "log.txt"},
               kLimits, interrupts);
  if (interrupts.signal() != 0) throw Interrupted(interrupts.signal(), "nothing was run");
  return fs::exists(out) ? read_json(out) : Json();
}

std::optional<int64_t> AskingHost::predicted_peak(const RunSpec& spec) {
  Interrupts interrupts;
  const auto peak = optrush::predicted_peak(
      spec, {.workers = workers_, .limits = kLimits, .as_gpu = request_.as_gpu}, interrupts);
  if (interrupts.signal() != 0) throw Interrupted(interrupts.signal(), "nothing was run");
  return peak;
}
}  // namespace optrush
