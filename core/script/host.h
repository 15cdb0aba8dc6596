#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"

namespace optrush {
/// A short run that shows whether a batch fits into memory.
struct MemoryTrial {
  RunSpec spec;
  double memory_bytes = 0;       ///< limit for its peak
  std::filesystem::path script;  ///< the script that asks; answers are stored per script
};

/// The actions of a script. `optrush run` implements them, and `--dry-run` only prints.
struct ScriptHost {
  virtual ~ScriptHost() = default;
  /// exp:run{...}: runs all rounds of the experiment. Returns the folder of its report.
  virtual std::filesystem::path run(const Experiment&) = 0;
  /// exp:search{...}: searches the fastest stack and measures it as a ladder. Without measuring: each alone.
  virtual std::filesystem::path search(const Experiment& experiment, const SearchRequest& request) {
    return run(each_alone(experiment, request));
  }
  /// exp:report(): prints the path of the report and its table.
  virtual void report(const std::filesystem::path& folder) = 0;
  /// rush.gpu(): {"name", "memory_bytes", "sm"} of the GPU for the runs; null if there is none.
  virtual Json gpu() { return {}; }
  /// rush.cpu(): {"name", "free_bytes", "bf16_speedup"}. The default has no name and no bf16.
  virtual Json cpu() { return {{"name", ""}, {"free_bytes", 0}, {"bf16_speedup", 0.0}}; }
  /// rush.ranks(): the number of processes that can train one model together, on GPUs or on CPUs.
  virtual int64_t ranks([[maybe_unused]] bool on_gpus) { return 1; }
  /// The predicted peak memory of a step in bytes; none if it can't be predicted.
  virtual std::optional<int64_t> predicted_peak(const RunSpec&) { return std::nullopt; }
  /// Whether two real steps stay within the memory; none in a dry run.
  virtual std::optional<bool> holds(const MemoryTrial&) { return std::nullopt; }
};

struct ScriptOptions {
  std::vector<std::string> plugin_path;  ///< folders with plugins, searched first
  std::filesystem::path library;         ///< scripts/ of the installation, for `require "optrush"`
  std::string device = {};               ///< --device: auto, cpu, cuda; empty: not given
  std::string preset = {};               ///< --preset; empty: the script's first preset
  std::map<std::string, std::string> arguments = {};  ///< --arg
  /// Limit for instructions of Lua's virtual machine, about ten seconds, without C functions.
  int64_t most_instructions = 1'000'000'000;
};

/// Executes a Lua file. Errors have script:line and a hint; exceptions of `host` are passed on unchanged.
void run_script(const std::filesystem::path& script, ScriptHost& host, const ScriptOptions&);
}  // namespace optrush
