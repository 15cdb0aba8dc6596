#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "distributed/ranks.h"

// What optrush-worker can be asked; each returns the program's exit code.
namespace optrush {
/// `run`: one rank of a run.
struct RankRequest {
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
int run_command(const RankRequest&);
/// Applies the plugins and writes the plan. `architecture`: of the GPU that is planned for; "": the one that
/// is here. Errors are thrown.
int plan_command(const std::filesystem::path& spec, const std::filesystem::path& out,
                 const std::string& architecture = "");
/// Writes the GPUs that a run can train on, in CUDA's order: [{"name", "memory_bytes", "sm"}].
int gpus_command(const std::filesystem::path& out);
/// Writes what a script may ask about the CPU: {"name", "free_bytes", "bf16_speedup"}.
int cpu_command(const std::filesystem::path& out);

/// Writes what a run of this spec starts from, so that any other program can do the same work: a Hugging Face
/// folder (config.json, model.safetensors) with the initial values, and tokens.safetensors with `tokens`
/// (steps, sequences, seq_len + 1), warm-up included. Plugins are left out.
int export_command(const std::filesystem::path& spec, const std::filesystem::path& out);

struct WeightsRequest {
  std::filesystem::path run;  ///< folder of a run with a saved state, or that state's own
  std::filesystem::path out;
  bool merge = false;  ///< an adapter into the model's matrices
  std::string dtype;   ///< fp32, fp64 or bf16; empty: as it was trained
};
/// Writes what a run has trained as other programs read it: config.json and model.safetensors of Hugging
/// Face's transformers, or, of an adapter beside a frozen model, adapter_config.json and
/// adapter_model.safetensors of PEFT.
int weights_command(const WeightsRequest&);

struct ForwardRequest {
  std::string model;                  ///< Hugging Face folder
  std::filesystem::path tokens, out;  ///< safetensors
  std::string dtype = "fp32", device = "auto";
  bool gradients = false;
  std::vector<std::string> plugins;  ///< NAME[:key=value,...]
  std::vector<std::string> plugin_path;
};

/// Reads int64 "input_ids" (B, S); writes "logits" (B, S, V), "loss" (mean next-token loss) and, asked for,
/// "grad.<parameter>" of every trainable parameter: any checkpoint, any plugins, against any other program.
int forward_command(const ForwardRequest&);

struct CheckListRequest {
  std::string device = "auto";
  std::vector<std::string> plugins;  ///< NAME[:key=value,...]; empty: all
  std::vector<std::string> kinds;    ///< empty: all
  std::vector<std::string> plugin_path;
  bool without_values = false;  ///< on a stand-in for a GPU, and there alone: nothing is compared
  std::filesystem::path out;
};
/// Writes the cases of this machine, in their order: {"device", "name", "unusable", "cases"}. Each case
/// carries its `identity`: a hash of all that its result depends on (device, build, plugin files, the case
/// itself). Loads no plugin.
int check_list_command(const CheckListRequest&);

/// Runs the cases of a file that check_list_command wrote, one after the other, and appends to the journal, a
/// JSON line each, when one begins and how it ended. A case that fails is the last one of the process.
int check_run_command(const std::filesystem::path& cases, const std::filesystem::path& journal);

/// `doctor`: what this machine offers, and which plugins work on it.
struct DoctorRequest {
  std::filesystem::path json;  ///< also written there; empty: not
  bool quick = false;          ///< measures for about two seconds only
  std::string device = "auto";
  int64_t threads = 0;  ///< 0: every core, as in a run
  std::vector<std::string> plugin_path;
};

/// Prints the page; the exit code.
int doctor_command(const DoctorRequest&);
}  // namespace optrush
