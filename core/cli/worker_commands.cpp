#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <memory>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "cli/commands.h"
#include "launch/fork_server.h"
#include "launch/ranks/launcher.h"
#include "launch/ranks/ranks.h"
#include "launch/run/live_run.h"
#include "launch/run/result.h"
#include "machine/child.h"
#include "machine/torch_folder.h"
#include "process/process.h"
#include "results/worker_answer.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;

void become(const std::string& program, std::vector<std::string> words, const std::string& cure) {
  execv(program.c_str(), pointers_to(words).data());
  throw Error(ErrorCode::file_access, "cannot start '" + program + "': " + std::strerror(errno), cure);
}

namespace {
/// `typed`: what the user typed before these arguments, which the worker's help and errors name.
[[noreturn]] void become_worker(const std::string& typed, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), typed);
  become(worker_for_torch(), std::move(arguments), "build it: ./optrush setup");
}

/// Sets the environment that a controller would set for this spec.
void set_environment_of(const RunSpec& spec) {
  for (const auto& [name, value] : worker_environment(spec)) setenv(name.c_str(), value.c_str(), 1);
}

/// Runs or plans a spec in a temporary folder and prints the worker's output, and its log to stderr.
int print_result_of(const std::string& what, const fs::path& spec) {
  const TemporaryFolder folder;
  const bool plan = what == "plan";
  const fs::path written = folder.path() / (plan ? "plan.json" : "result.json");
  const fs::path out = plan ? written : folder.path(), log = folder.path() / "log.txt";
  Interrupts interrupts;
  const Command command{{worker_for_torch(), what, "--spec", spec, "--out", out}, {}, log};
  const ProcessEnd end = run_process(command, {.timeout_s = 1e9}, interrupts);
  std::cerr << read_file(log) << std::flush;
  if (interrupts.signal() != 0) throw Interrupted(interrupts.signal(), "");
  if (!fs::exists(written) || (plan && read_answer(written).failure))
    return end.kind == ProcessEnd::Kind::exited && end.code != 0 ? end.code : kSomethingFailed;
  const std::string text = read_file(written);
  std::cout << text << std::flush;
  return plan || run_result_from_json(parse_json(text, written.string()), "the worker").ok()
             ? kOk
             : kSomethingFailed;
}

/// Repeats a run of several ranks on this machine in a folder and returns its result.
RunResult run_ranks(const RunSpec& spec, const fs::path& folder) {
  write_json(folder / "spec.json", to_json(spec));
  ForkServer workers(worker_for_torch(), ForkServer::Use::runs);
  Interrupts interrupts;
  const auto run = start_ranks({.id = "", .spec = spec}, folder, workers, nullptr, {}, interrupts);
  const auto result = finish(*run, spec.timeout_s, interrupts);
  for (int64_t rank = 0; rank < spec.train.world_size; ++rank)
    if (const fs::path log = rank_folder(folder, rank) / "log.txt"; fs::exists(log))
      std::cerr << read_file(log) << std::flush;
  if (!result) throw Interrupted(interrupts.signal(), "");
  store_result(folder, {.id = "", .spec = spec}, *result);
  return *result;
}

int print_result_of_ranks(const RunSpec& spec, const fs::path& out) {
  if (!out.empty()) {
    fs::create_directories(out);
    return run_ranks(spec, out).ok() ? kOk : kSomethingFailed;
  }
  const TemporaryFolder folder;
  const bool ok = run_ranks(spec, folder.path()).ok();
  std::cout << read_file(folder.path() / "result.json") << std::flush;
  return ok ? kOk : kSomethingFailed;
}

int worker(const CLI::App& command, const fs::path& spec, const fs::path& out, bool plan) {
  if (spec.empty()) {
    auto rest = command.remaining();
    if (rest.empty()) throw UsageError("worker needs --spec FILE", "or a subcommand: optrush worker --help");
    become_worker("optrush worker", std::move(rest));
  }
  if (const auto rest = command.remaining(); !rest.empty())
    throw UsageError("'" + rest.front() + "' cannot be combined with --spec",
                     "optrush worker --spec FILE [--plan] [--out PATH]");
  const std::string what = plan ? "plan" : "run";
  const RunSpec run = run_spec_from_json(read_json(spec), spec.string());
  if (!plan && !launched() && run.train.world_size > 1) return print_result_of_ranks(run, out);
  set_environment_of(run);
  if (out.empty()) return print_result_of(what, spec);
  become_worker("optrush worker", {what, "--spec", spec, "--out", out});
}
}  // namespace

void add_worker_commands(CLI::App& app, int& code) {
  struct Options {
    fs::path spec, out;
    bool plan = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("worker", "repeat a single run: optrush worker --spec FILE");
  command->add_option("--spec", options->spec,
                      "RunSpec file, for example reports/EXPERIMENT/LABEL/runs/RUN/spec.json");
  command->add_flag("--plan", options->plan, "only apply the plugins and print the resolved recipe");
  command->add_option("--out", options->out,
                      "folder for the result, or file for the plan; default: print it");
  command->prefix_command();
  command->callback([=, &code] { code = worker(*command, options->spec, options->out, options->plan); });
  add_command_of_worker(app, "doctor", "describe this machine, and which plugins work on it");
}

void add_command_of_worker(CLI::App& app, const std::string& name, const std::string& description) {
  auto* passed = app.add_subcommand(name, description);
  passed->prefix_command();
  passed->set_help_flag();  // the worker prints its own help
  passed->callback([=] {
    auto arguments = passed->remaining();
    arguments.insert(arguments.begin(), name);
    become_worker("optrush", std::move(arguments));
  });
}
}  // namespace optrush
