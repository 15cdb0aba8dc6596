// optrush-worker: the process that trains. One run in one process; see `optrush-worker --help`.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "base/files.h"
#include "optrush/error.h"
#include "results/worker_answer.h"
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

/// Makes sure that this process has these environment variables. Libraries read their variables during
/// loading. If one differs, the program restarts in this process with `arguments`, and this function does not
/// return.
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

/// Runs `command`. If it fails, writes the reason to the file `out` for the caller.
int answering(const std::filesystem::path& out, const std::function<int()>& command) {
  try {
    return command();
  } catch (const std::exception& e) {
    write_failure(out, end_of(e));
    throw;
  }
}

int execute(int argc, char** argv) {
  CLI::App app("Runs one RunSpec, or plans it", "optrush-worker");
  app.require_subcommand(1);
  std::string spec, out;

  auto* run = app.add_subcommand("run", "run a spec; write OUT/result.json and OUT/metrics.jsonl");
  RankRequest training;
  run->add_option("--spec", training.spec, "RunSpec (JSON)")->required();
  run->add_option("--out", training.out, "folder for the result of this rank")->required();
  run->add_option("--state", training.state,
                  "folder for the saved state, shared by all ranks; default: OUT/state");
  run->add_option("--continue", training.from_step, "continue at this step from the state of --state")
      ->type_name("STEP");
  run->add_option("--rank", training.rank, "global rank; default: the launcher's variables (RANK, ...)");
  run->add_option("--local-rank", training.local_rank, "rank on this machine");
  run->add_option("--local-size", training.local_size, "number of ranks on this machine");
  run->add_option("--store", training.store,
                  "HOST:PORT of the store that connects the ranks; rank 0 listens there");
  auto* plan = app.add_subcommand("plan", "apply the plugins of a spec and write the resolved recipe");
  plan->add_option("--spec", spec, "RunSpec (JSON)")->required();
  plan->add_option("--out", out, "file for the plan")->required();
  std::string architecture;
  plan->add_option("--sm", architecture,
                   "architecture of the planned GPU, for example sm_90; default: the present GPU");
  auto* exporting = app.add_subcommand("export", "write the initial state of a run, for other programs");
  exporting->add_option("--spec", spec, "RunSpec (JSON)")->required();
  exporting->add_option("--out", out, "folder: config.json, model.safetensors, tokens.safetensors, spec.json")
      ->required();
  auto* gpus = app.add_subcommand("gpus", "write the usable GPUs");
  gpus->add_option("--out", out, "file for a list (JSON)")->required();
  auto* cpu = app.add_subcommand("cpu", "write the CPU's properties for scripts");
  cpu->add_option("--out", out, "file for an object (JSON)")->required();
  DoctorRequest request;
  auto* doctor = app.add_subcommand("doctor", "describe this machine, and which plugins work on it");
  doctor->add_option("--json", request.json, "also write it to this file");
  doctor->add_flag("--quick", request.quick, "limit the measurement to about two seconds");
  doctor->add_option("--device", request.device, "auto, cpu or cuda");
  doctor->add_option("--threads", request.threads, "CPU threads; 0: OMP_NUM_THREADS, or every core");
  doctor->add_option("--plugin-path", request.plugin_path, "folder with plugins; may be repeated")
      ->check(CLI::ExistingDirectory);
  ForwardRequest inference;
  auto* forward = app.add_subcommand("forward", "write logits, loss and gradients of a Hugging Face folder");
  forward->add_option("--model", inference.model, "folder with config.json and safetensors")->required();
  forward->add_option("--tokens", inference.tokens, "safetensors with int64 input_ids (B, S)")->required();
  forward->add_option("--out", inference.out, "safetensors to write: logits, loss, grad.NAME")->required();
  forward->add_flag("--gradients", inference.gradients,
                    "also write the gradient of every trainable parameter");
  forward->add_option("--dtype", inference.dtype, "type of the parameters: fp32, fp64 or bf16");
  forward->add_option("--device", inference.device, "auto, cpu or cuda");
  forward->add_option("--plugin", inference.plugins, "NAME[:key=value,...]; may be repeated");
  forward->add_option("--plugin-path", inference.plugin_path, "folder with plugins; may be repeated")
      ->check(CLI::ExistingDirectory);
  WeightsRequest trained;
  auto* weights = app.add_subcommand("weights", "write the trained weights of a run for other programs");
  weights->add_option("run", trained.run, "folder of a run with a saved state")->required();
  weights
      ->add_option("out", trained.out, "new folder in the format of Hugging Face, or of PEFT for an adapter")
      ->required();
  weights->add_flag("--merge", trained.merge, "merge an adapter into the matrices of the model");
  weights->add_option("--dtype", trained.dtype, "fp32, fp64 or bf16; default: the type in training")
      ->check(CLI::IsMember({"fp32", "fp64", "bf16"}));
  CheckListRequest cases;
  auto* listing = app.add_subcommand("check-list", "write the cases for check-run");
  listing->add_option("--out", cases.out, "file for the cases (JSON)")->required();
  listing->add_option("--device", cases.device, "auto, cpu or cuda");
  listing->add_option("--plugin", cases.plugins, "NAME[:key=value,...]; may be repeated");
  listing->add_option("--kind", cases.kinds, "alone, gradient, types, compiled or pair; may be repeated");
  listing->add_option("--plugin-path", cases.plugin_path, "folder with plugins; may be repeated")
      ->check(CLI::ExistingDirectory);
  listing->add_flag("--without-values", cases.without_values, "for a stand-in for a GPU: compare nothing");
  std::string case_file, journal;
  auto* checking = app.add_subcommand("check-run", "run cases one after another");
  checking->add_option("--cases", case_file, "file from check-list")->required();
  checking->add_option("--journal", journal, "file for a JSON line at the start and end of each case")
      ->required();
  auto* forking =
      app.add_subcommand("fork-server", "execute command lines from a socket in forks (internal)");
  ForkServerRequest server;
  std::string room;
  forking->add_flag("--plans", server.plans, "for plans: register the simulated device first");
  forking->add_option("--room", room, "blanks; the forks show their command lines in this memory");

  int code = 0;
  run->callback([&] {
    own_environment_of(training.spec, argv);
    code = run_command(training);
  });
  plan->callback([&] {
    code = answering(out, [&] {
      own_environment_of(spec, argv);
      return plan_command(spec, out, architecture);
    });
  });
  gpus->callback([&] { code = gpus_command(out); });
  cpu->callback([&] { code = cpu_command(out); });
  exporting->callback([&] { code = export_command(spec, out); });
  weights->callback([&] { code = weights_command(trained); });
  forward->callback([&] { code = forward_command(inference); });
  listing->callback([&] { code = answering(cases.out, [&] { return check_list_command(cases); }); });
  checking->callback([&] { code = check_run_command(case_file, journal); });
  doctor->callback([&] { code = doctor_command(request); });
  forking->callback([&] {
    char* const end = argv[argc - 1] + std::strlen(argv[argc - 1]) + 1;
    server.command_line = {argv[0], end};  // the kernel has put the arguments one behind the other
    code = fork_server_command(server, execute);
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const UsageError& e) {
    std::cerr << "optrush-worker: error[" << to_string(e.code()) << "]: " << e.what() << "\n";
    return 2;
  } catch (const Skip& e) {
    std::cerr << "optrush-worker: skipped[" << to_string(e.code()) << "]: " << e.what() << "\n";
    return 1;
  } catch (const std::exception& e) {
    std::cerr << "optrush-worker: error[" << to_string(code_of(end_of(e))) << "]: " << e.what() << "\n";
    return 1;
  }
  // Threads of LibTorch and of plugins may still run; static destruction under them is not safe.
  std::cout.flush();
  std::quick_exit(code);
}
}  // namespace
}  // namespace optrush

int main(int argc, char** argv) { return optrush::execute(argc, argv); }
