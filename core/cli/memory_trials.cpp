#include "cli/memory_trials.h"

#include <algorithm>

#include "base/files.h"
#include "cli/interrupted.h"
#include "launch/run/run_starter.h"
#include "optrush/error.h"
#include "process/temporary_folder.h"
#include "results/run_result.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// The second of which is the first with the optimizer's state in memory.
constexpr int64_t kWarmup = 1, kSteps = 1;

double peak_of(const RunResult& result) {
  double peak = result.memory.allocated.value_or(0);
  for (const auto& rank : result.ranks) peak = std::max(peak, rank.peak_allocated.value_or(0));
  return peak;
}
}  // namespace

MemoryTrials::MemoryTrials(RunRequest request, std::string label)
    : request_(std::move(request)), label_(std::move(label)), file_(request_.reports / "trials.jsonl") {}

std::string MemoryTrials::key_of(const MemoryTrial& trial) const {
  return sha256(Json({trial.script.string(), label_, to_json(trial.spec), trial.memory_bytes})
                    .dump(-1, ' ', true, Json::error_handler_t::replace));
}

std::optional<bool> MemoryTrials::remembered(const MemoryTrial& trial) const {
  const std::string key = key_of(trial);
  std::optional<bool> answer;
  for (const Json& line : read_json_lines(file_))
    if (line.value("key", Json()) == key) answer = line.value("holds", Json()) == true;
  return answer;
}

bool MemoryTrials::run(const MemoryTrial& trial, int64_t gpus) {
  const TemporaryFolder folder;
  Interrupts interrupts;
  Job job{.id = "trial", .spec = trial.spec};
  job.spec.train.warmup = kWarmup;
  job.spec.train.steps = kSteps;
  job.spec.validate.every = job.spec.save.every = 0;  // neither is part of a step
  write_json(folder.path() / "spec.json", to_json(job.spec));
  RunStarter starter(request_.worker, request_.followers, folder.path() / "starts", interrupts);
  starter.machine_has(gpus);
  const auto live = starter.start(job, folder.path(), {});
  const auto listen = [&] {
    if (request_.followers != nullptr) request_.followers->listen(interrupts);
  };
  const auto ended = live ? finish(*live, job.spec.timeout_s, interrupts, listen) : std::nullopt;
  if (!ended) throw Interrupted(interrupts.signal(), "nothing was run");
  const RunResult& result = *ended;
  if (result.status != Status::ok && result.status != Status::oom)
    throw Error("a trial of micro-batch " + std::to_string(job.spec.train.micro_batch) + " ended as '" +
                    std::string(to_string(result.status)) + "': " + result.reason,
                "leave trial out to go by what is predicted");
  const double peak = peak_of(result);
  const bool holds = result.status == Status::ok && peak <= trial.memory_bytes;
  fs::create_directories(file_.parent_path());
  const Json line = {{"key", key_of(trial)},
                     {"script", trial.script.string()},
                     {"micro_batch", job.spec.train.micro_batch},
                     {"memory_bytes", trial.memory_bytes},
                     {"status", std::string(to_string(result.status))},
                     {"peak_bytes", peak},
                     {"holds", holds}};
  close_torn_line(file_);
  append_line(file_, line.dump(-1, ' ', true, Json::error_handler_t::replace));
  return holds;
}
}  // namespace optrush
