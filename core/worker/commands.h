#pragma once
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "distributed/ranks.h"
#include "optrush/json.h"

// The commands of optrush-worker. Each returns the exit code.
namespace optrush {
/// Arguments of `run`, for one rank of a run.
struct RankRequest {
  std::filesystem::path spec, out;
  std::filesystem::path state;                        ///< folder for saved states, one for all ranks
  std::optional<int64_t> from_step;                   ///< continue from the saved state of this step
  int64_t rank = -1, local_rank = 0, local_size = 1;  ///< -1: from the environment, as torchrun sets it
  std::string store;                                  ///< HOST:PORT of the store where the ranks meet

  Ranks ranks_of(int64_t world_size) const;
};
/// Trains one rank of the spec and writes out/result.json and out/metrics.jsonl.
int run_command(const RankRequest&);
/// Applies the plugins and writes the plan. `architecture`: of the planned GPU; "": of this machine.
int plan_command(const std::filesystem::path& spec, const std::filesystem::path& out,
                 const std::string& architecture = "");
/// Writes the GPUs of this machine in CUDA's order: [{"name", "memory_bytes", "sm"}].
int gpus_command(const std::filesystem::path& out);
/// Writes the properties of the CPU that a script may ask for: {"name", "free_bytes", "bf16_speedup"}.
int cpu_command(const std::filesystem::path& out);

/// Arguments of `doctor`, which describes this machine and the plugins that work on it.
struct DoctorRequest {
  std::filesystem::path json;  ///< file for the JSON output; empty: none
  bool quick = false;          ///< measure for only a few seconds
  double sustained_s = 0;      ///< seconds of each sustained product; 0: the usual ones
  std::string device = "auto";
  int64_t threads = 0;  ///< 0: all cores, as in a run
  std::vector<std::string> plugin_path;
};

/// Prints the page.
int doctor_command(const DoctorRequest&);
/// The page, from the JSON of `doctor --json` (docs/schema/context.schema.json).
std::string doctor_page(const Json& context);

/// Executes a command line of this program. Returns the exit code.
using ExecuteCommand = std::function<int(int argc, char** argv)>;
struct ForkServerRequest {
  bool plans = false;            ///< registers the simulated device for all forks
  std::span<char> command_line;  ///< memory of this process's arguments, in which forks show theirs
};
/// `fork-server`: executes each command line from the standard input in a fork of this process, which has
/// loaded all libraries (machine/fork_protocol.h). It runs no operator itself, as that may start threads.
int fork_server_command(const ForkServerRequest&, const ExecuteCommand&);
struct PrepareRequest {
  std::string program;  ///< this program
  std::string socket;   ///< a Unix socket of the controller
  std::string spec, out;
};
/// `prepare`: opens the GPU, sends {} to the socket, gets {"environment": {NAME: VALUE}}, executes `run`.
int prepare_command(const PrepareRequest&, const ExecuteCommand&);

/// The whole program with the additional commands of tools.
int run_worker_command_line(int argc, char** argv, std::initializer_list<AddCommand> of_tools);
}  // namespace optrush
