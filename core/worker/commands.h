#pragma once
#include <filesystem>
#include <string>

#include "distributed/ranks.h"

namespace optrush {
struct RunRequest {
  std::filesystem::path spec, out;
  std::filesystem::path state;  ///< folder for the state that the spec wants saved, one for all ranks
  std::optional<int64_t>
      from_step;  ///< with this step of the state that is there, as a run that was interrupted
  int64_t rank = -1, local_rank = 0, local_size = 1;  ///< -1: the environment says, as torchrun sets it
  std::string store;                                  ///< HOST:PORT where the ranks meet

  Ranks ranks_of(int64_t world_size) const;
};
/// Trains what the spec says, as one of its ranks; writes out/result.json and out/metrics.jsonl. 0 whenever a
/// result was written.
int run_command(const RunRequest&);
/// Applies the plugins and writes the plan. `architecture`: of the GPU that is planned for; "": the one that
/// is here. Errors are thrown.
int plan_command(const std::filesystem::path& spec, const std::filesystem::path& out,
                 const std::string& architecture = "");
/// Writes the GPUs that a run can train on, in CUDA's order: [{"name", "memory_bytes", "sm"}].
int gpus_command(const std::filesystem::path& out);
/// Writes what a script may ask about the CPU: {"name", "free_bytes", "bf16_speedup"}.
int cpu_command(const std::filesystem::path& out);
}  // namespace optrush
