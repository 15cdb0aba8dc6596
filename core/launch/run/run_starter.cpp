#include "launch/run/run_starter.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/seconds_since.h"
#include "base/text.h"
#include "launch/run/result.h"
#include "machine/cores.h"
#include "machine/environment.h"
#include "machine/python.h"
#include "machine/socket.h"
#include "optrush/error.h"
#include "spec/run_identity.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr double kLimitToPrepare = 30;  // seconds to open the GPU
constexpr size_t kLongestLine = 4096;
constexpr std::chrono::milliseconds kPreparedPeriod{50};

/// The part of a spec that determines the export: the problem and, through the sequences per step, the
/// plugins' accumulation and use of ranks; not the rung or the round.
RunSpec start_of(const RunSpec& spec) {
  RunSpec start;
  start.model_kind = spec.model_kind;
  start.model = spec.model;
  start.data = spec.data;
  start.train = spec.train;
  start.plugins = spec.plugins;
  start.plugin_path = spec.plugin_path;
  start.validate = spec.validate;  // held-out data is not trained on
  start.start = spec.start;
  start.weights_only = spec.weights_only;
  return start;
}

bool uses_start(const External& external) {
  return std::ranges::any_of(full_command(external), [](const std::string& word) {
    return word.find("{start}") != std::string::npos;
  });
}

/// The command of a program's run, with placeholders filled in. Its files are also in environment variables
/// (OPTRUSH_SPEC, OPTRUSH_OUT ...), and OpenMP's variables are those of workers. `start`: value of {start};
/// empty if the command does not use it.
Command external_command(const External& external, const RunSpec& spec, const fs::path& run_folder,
                         const fs::path& worker, const fs::path& start) {
  const fs::path folder = fs::absolute(run_folder);
  const std::string spec_file = folder / "spec.json", out = folder / "result.json",
                    metrics = folder / "metrics.jsonl",
                    trace = spec.trace ? (folder / "trace.json").string() : "",
                    worker_file = fs::absolute(worker), world_size = std::to_string(spec.train.world_size);
  Command command{.log = folder / "log.txt", .folder = external.folder};
  const std::vector<std::pair<std::string, std::string>> values = {
      {"{python}", project_python().string()},
      {"{spec}", spec_file},
      {"{out}", out},
      {"{metrics}", metrics},
      {"{trace}", trace},
      {"{start}", start.string()},
      {"{worker}", worker_file},
      {"{world_size}", world_size},
      {"{seed}", std::to_string(spec.train.seed)}};
  for (const auto& word : full_command(external)) command.arguments.push_back(filled_in(word, values));
  command.environment = {{"OPTRUSH_SPEC", spec_file},     {"OPTRUSH_OUT", out},
                         {"OPTRUSH_METRICS", metrics},    {"OPTRUSH_TRACE", trace},
                         {"OPTRUSH_WORKER", worker_file}, {"OPTRUSH_WORLD_SIZE", world_size}};
  const auto add = [&](const auto& variables) {
    command.environment.insert(command.environment.end(), variables.begin(), variables.end());
  };
  // A program with several ranks starts them itself. Each gets its share of the cores, like our ranks.
  const int64_t ranks = spec.train.world_size, cores = usable_cores();
  add(worker_environment(spec, ranks > 1 ? share_of_cores(ranks, cores, cores) : 0));
  // Programs import the package optimization_rush. Their own packages follow.
  const auto own = spec.environment.find("PYTHONPATH");
  const std::string packages =
      own == spec.environment.end() ? environment_variable("PYTHONPATH") : own->second;
  command.environment.emplace_back("PYTHONPATH", path_with_our_package(packages));
  if (!external.preload.empty()) command.environment.emplace_back("LD_PRELOAD", join(external.preload, ":"));
  return command;
}
}  // namespace

PreparedWorker::PreparedWorker(ForkServer& workers, Command command, Interrupts& interrupts)
    : command_(std::move(command)), interrupts_(interrupts), listener_(listen_at(folder_ / "prepared")) {
  std::vector<std::string> arguments{workers.worker(), "prepare", "--socket", folder_ / "prepared"};
  arguments.insert(arguments.end(), command_.arguments.begin() + 2, command_.arguments.end());
  process_ = workers.start({.arguments = std::move(arguments),
                            .environment = command_.environment,
                            .log = "/dev/null",
                            .helper = true},
                           interrupts);
}

bool PreparedWorker::wait() try {
  const auto start = std::chrono::steady_clock::now();
  while (!ready_) {
    if (!channel_)
      if (Descriptor next = accept_from(listener_); next.get() >= 0)
        channel_.emplace(std::move(next), kLongestLine);
    ready_ = channel_ && channel_->receive();
    if (ready_) break;
    if (interrupts_.poll() != 0 || seconds_since(start) > kLimitToPrepare || process_->poll() ||
        (channel_ && !channel_->is_open()))
      return false;
    interrupts_.wait(kPreparedPeriod, {channel_ ? channel_->descriptor() : listener_.get()});
  }
  return true;
} catch (const Error&) {  // the message is not JSON: it is another worker
  return false;
}

std::unique_ptr<Process> PreparedWorker::run(const Environment& added) {
  if (!wait() || process_->poll()) return nullptr;
  process_->become_run(command_.log);
  Json variables = Json::object();
  for (const auto& [name, value] : added) variables[name] = value;
  channel_->send({{"environment", variables}});
  return std::move(process_);
}

RunStarter::RunStarter(const fs::path& worker, RemoteRanks* remote_ranks, const fs::path& starts,
                       Interrupts& interrupts)
    : workers_(worker, ForkServer::Use::runs),
      remote_ranks_(remote_ranks),
      starts_(fs::absolute(starts)),
      needs_(interrupts),
      interrupts_(interrupts) {
  fs::remove_all(starts_);  // left by a killed controller
}

RunStarter::~RunStarter() {
  std::error_code ignored;
  fs::remove_all(starts_, ignored);
}

std::unique_ptr<LiveRun> RunStarter::start(const Job& job, const fs::path& folder, const Environment& added) {
  try {
    if (job.external) return external(job, folder, added);
    if (job.spec.train.world_size == 1) return worker(job, folder, added);
    if (auto end = obstacle(job.spec, gpus_, remote_ranks_))
      return std::make_unique<UnstartedRun>(std::move(*end));
    return start_ranks(job, folder, workers_, remote_ranks_, added, interrupts_);
    // for example: the program is missing, its start can't be exported, or no more processes are allowed
  } catch (const Error& e) {
    return std::make_unique<UnstartedRun>(RunResult(failed(e, e.message())));
  }
}

std::unique_ptr<LiveRun> RunStarter::worker(const Job& job, const fs::path& folder,
                                            const Environment& added) {
  Command command = command_of(job, folder);
  std::unique_ptr<Process> process;
  if (prepared_ && prepared_->is_for(command)) process = prepared_->run(added);
  prepared_.reset();
  command.environment.insert(command.environment.end(), added.begin(), added.end());
  if (!process) process = workers_.start(command, interrupts_);
  return std::make_unique<ProcessRun>(std::move(process), job, folder, interrupts_);
}

Command RunStarter::command_of(const Job& job, const fs::path& folder) const {
  // torchrun limits OpenMP to one thread per process, but the other processes are idle here.
  const int64_t cores = remote_ranks_ == nullptr ? 0 : usable_cores();
  Command command{{workers_.worker(), "run", "--spec", folder / "spec.json", "--out", folder},
                  worker_environment(job.spec, cores),
                  folder / "log.txt"};
  if (job.from_step)
    command.arguments.insert(command.arguments.end(), {"--continue", std::to_string(*job.from_step)});
  return command;
}

void RunStarter::prepare(const Job& job, const fs::path& folder) try {
  prepared_.emplace(workers_, command_of(job, folder), interrupts_);
} catch (const Error&) {  // the run starts as usual
  prepared_.reset();
}

void RunStarter::wait_until_prepared() {
  if (prepared_ && !prepared_->wait()) prepared_.reset();
}

std::optional<fs::path> RunStarter::exported_start(const RunSpec& spec) {
  const RunSpec start = start_of(spec);
  const fs::path folder = starts_ / spec_sha256(start).substr(0, 16), spec_file = folder.string() + ".json",
                 log = folder.string() + ".log", unfinished = folder.string() + ".tmp";
  if (fs::exists(folder)) return folder;
  fs::remove_all(unfinished);
  write_json(spec_file, to_json(start));
  const Limits limits{.timeout_s = spec.timeout_s};
  const ProcessEnd end =
      run_process({{fs::absolute(workers_.worker()), "export", "--spec", spec_file, "--out", unfinished},
                   worker_environment(spec),
                   log},
                  limits, interrupts_);
  if (end.kind == ProcessEnd::Kind::interrupted) return std::nullopt;
  if (!end.ok())
    throw Error(ErrorCode::crashed, "the initial state could not be exported: " +
                                        describe_bad_end(end, limits).reason + "\n" + log_tail(log));
  fs::rename(unfinished, folder);
  return folder;
}

std::unique_ptr<LiveRun> RunStarter::external(const Job& job, const fs::path& folder,
                                              const Environment& added) {
  if (const auto missing = needs_.missing(*job.external); !missing.empty())
    return std::make_unique<UnstartedRun>(RunResult(BadEnd{Status::skipped, reason_of(missing)}));
  std::optional<fs::path> start = fs::path();
  if (uses_start(*job.external)) start = exported_start(job.spec);
  if (!start) return nullptr;
  Command command = external_command(*job.external, job.spec, folder, workers_.worker(), *start);
  command.environment.insert(command.environment.end(), added.begin(), added.end());
  return std::make_unique<ProcessRun>(std::make_unique<Process>(command), job, folder, interrupts_);
}
}  // namespace optrush
