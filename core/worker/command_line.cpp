#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "base/command_line.h"
#include "base/files.h"
#include "base/printable.h"
#include "optrush/error.h"
#include "spec/spec_json.h"
#include "worker/commands.h"
#include "worker/run_failure.h"

namespace optrush {
namespace {
/// The variable with the id of a process that has restarted, so that it restarts only once.
constexpr const char* kMark = "OPTRUSH_STARTED_ANEW";

bool has(const std::string& name, const std::string& value) {
  const char* present = std::getenv(name.c_str());
  return present != nullptr && value == present;
}

/// Makes sure that this process has these environment variables, which libraries read during loading. If one
/// differs, the program restarts in this process with `arguments`.
void own_environment(const std::map<std::string, std::string>& variables, char** arguments) {
  const std::string self = std::to_string(getpid());
  std::string other;
  for (const auto& [name, value] : variables)
    if (!has(name, value)) other = name;
  if (other.empty()) return;
  if (has(kMark, self))
    throw Error(ErrorCode::invalid_value,
                "the environment variable " + other + " cannot be set: a library changes it during loading",
                "remove it from env");
  setenv(kMark, self.c_str(), 1);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  execv("/proc/self/exe", arguments);
  throw Error(ErrorCode::file_access,
              std::string("the program cannot restart with its environment: ") + std::strerror(errno));
}

void own_environment_of(const std::filesystem::path& spec, char** argv) {
  const auto run = run_spec_from_json(read_json(spec), spec.string());
  own_environment(run.environment, argv);
}

// Each adds a command, which runs during parsing and stores the exit code in `code`.
void add_run(CLI::App& app, char** argv, int& code) {
  auto request = std::make_shared<RankRequest>();
  auto* run = app.add_subcommand("run", "run a spec; write OUT/result.json and OUT/metrics.jsonl");
  run->add_option("--spec", request->spec, "RunSpec (JSON)")->required();
  run->add_option("--out", request->out, "folder for the result of this rank")->required();
  run->add_option("--state", request->state,
                  "folder for the saved state, shared by all ranks; default: OUT/state");
  run->add_option("--continue", request->from_step, "continue at this step from the state of --state")
      ->type_name("STEP");
  run->add_option("--rank", request->rank, "global rank; default: the launcher's variables (RANK, ...)");
  run->add_option("--local-rank", request->local_rank, "rank on this machine");
  run->add_option("--local-size", request->local_size, "number of ranks on this machine");
  run->add_option("--store", request->store,
                  "HOST:PORT of the store that connects the ranks; rank 0 listens there");
  run->callback([request, argv, &code] {
    own_environment_of(request->spec, argv);
    code = run_command(*request);
  });
}

void add_plan(CLI::App& app, char** argv, int& code) {
  struct Options {
    std::string spec, out, architecture;
  };
  auto options = std::make_shared<Options>();
  auto* plan = app.add_subcommand("plan", "apply the plugins of a spec and write the resolved recipe");
  plan->add_option("--spec", options->spec, "RunSpec (JSON)")->required();
  plan->add_option("--out", options->out, "file for the plan")->required();
  plan->add_option("--sm", options->architecture,
                   "architecture of the planned GPU, for example sm_90; default: the present GPU");
  plan->callback([options, argv, &code] {
    code = answering(options->out, [&] {
      own_environment_of(options->spec, argv);
      return plan_command(options->spec, options->out, options->architecture);
    });
  });
}

void add_processors(CLI::App& app, int& code) {
  auto out = std::make_shared<std::string>();
  auto* gpus = app.add_subcommand("gpus", "write the usable GPUs");
  gpus->add_option("--out", *out, "file for a list (JSON)")->required();
  gpus->callback([out, &code] { code = gpus_command(*out); });
  auto* cpu = app.add_subcommand("cpu", "write the CPU's properties for scripts");
  cpu->add_option("--out", *out, "file for an object (JSON)")->required();
  cpu->callback([out, &code] { code = cpu_command(*out); });
}

void add_doctor(CLI::App& app, int& code) {
  auto request = std::make_shared<DoctorRequest>();
  auto* doctor = app.add_subcommand("doctor", "describe this machine, and which plugins work on it");
  doctor->add_option("--json", request->json, "also write it to this file");
  doctor->add_flag("--quick", request->quick, "limit the measurement to a few seconds");
  doctor
      ->add_option("--sustained", request->sustained_s,
                   "seconds of each sustained product; default: 3 on a GPU, 0.5 on a CPU")
      ->check(CLI::Range(0.05, 60.0));
  doctor->add_option("--device", request->device, "auto, cpu or cuda");
  doctor->add_option("--threads", request->threads, "CPU threads; 0: OMP_NUM_THREADS, or every core");
  doctor->add_option("--plugin-path", request->plugin_path, "folder with plugins; may be repeated")
      ->check(CLI::ExistingDirectory);
  doctor->callback([request, &code] { code = doctor_command(*request); });
}

/// `execute`: what a fork does with its command line.
void add_fork_server(CLI::App& app, int argc, char** argv, const ExecuteCommand& execute, int& code) {
  struct Options {
    ForkServerRequest request;
    std::string room;
  };
  auto options = std::make_shared<Options>();
  auto* forking =
      app.add_subcommand("fork-server", "execute command lines from a socket in forks (internal)");
  forking->add_flag("--plans", options->request.plans, "for plans: register the simulated device first");
  forking->add_option("--room", options->room, "blanks; the forks show their command lines in this memory");
  forking->callback([options, argc, argv, execute, &code] {
    char* const end = argv[argc - 1] + std::strlen(argv[argc - 1]) + 1;
    options->request.command_line = {argv[0], end};  // the kernel has put the arguments one behind the other
    code = fork_server_command(options->request, execute);
  });
}

void add_prepare(CLI::App& app, const char* program, const ExecuteCommand& execute, int& code) {
  auto request = std::make_shared<PrepareRequest>(PrepareRequest{.program = program});
  auto* preparing =
      app.add_subcommand("prepare", "open the GPU, wait at a socket, then run a spec (internal)");
  preparing->add_option("--socket", request->socket)->required();
  preparing->add_option("--spec", request->spec)->required();
  preparing->add_option("--out", request->out)->required();
  preparing->callback([request, execute, &code] { code = prepare_command(*request, execute); });
}
}  // namespace

int run_worker_command_line(int argc, char** argv, std::initializer_list<AddCommand> of_tools) {
  const ExecuteCommand execute = [of_tools](int count, char** words) {
    return run_worker_command_line(count, words, of_tools);
  };
  CLI::App app("Runs one RunSpec, or plans it", std::filesystem::path(argv[0]).filename());
  app.require_subcommand(1);
  int code = 0;
  add_run(app, argv, code);
  add_plan(app, argv, code);
  add_processors(app, code);
  add_doctor(app, code);
  for (const AddCommand add : of_tools) add(app, code);
  add_fork_server(app, argc, argv, execute, code);
  add_prepare(app, argv[0], execute, code);
  try {
    parse_command_line(app, argc, argv);
  } catch (const std::exception& e) {
    const bool skipped = dynamic_cast<const Skip*>(&e) != nullptr;
    std::cerr << "optrush: " << (skipped ? "skipped[" : "error[") << to_string(code_of(end_of(e)))
              << "]: " << printable_lines(as_typed(e.what())) << "\n";
    return dynamic_cast<const UsageError*>(&e) != nullptr ? 2 : 1;
  }
  // Threads of LibTorch and of plugins may still run; static destruction under them is not safe.
  std::cout.flush();
  std::quick_exit(code);
}
}  // namespace optrush
