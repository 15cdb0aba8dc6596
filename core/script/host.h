#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/search_request.h"

namespace optrush {
/// A short run that shows whether a batch fits.
struct MemoryTrial {
  RunSpec spec;
  double memory_bytes = 0;       ///< that its peak may reach
  std::filesystem::path script;  ///< which asks: the answer is remembered for it
};

/// The actions of a script. The command line implements them: `optrush run` measures, `--dry-run` only
/// prints.
struct ScriptHost {
  virtual ~ScriptHost() = default;
  /// exp:run{...}: the whole experiment, every round. Returns the folder of its report once the last run has
  /// ended.
  virtual std::filesystem::path run(const Experiment&) = 0;
  /// exp:search{...}: looks for the fastest stack and measures it as a ladder. Returns as run() does. A
  /// host that measures nothing gets each part alone.
  virtual std::filesystem::path search(const Experiment& experiment, const SearchRequest& request) {
    return run(each_alone(experiment, request));
  }
  /// exp:report(): prints where the report is and its table.
  virtual void report(const std::filesystem::path& folder) = 0;
  /// rush.gpu(): {"name", "memory_bytes", "sm"} of the GPU that runs would train on; null where there is
  /// none.
  virtual Json gpu() { return {}; }
  /// rush.cpu(): {"name", "free_bytes", "bf16_speedup"}. A host that measures nothing reports a CPU without a
  /// name and without bf16.
  virtual Json cpu() { return {{"name", ""}, {"free_bytes", 0}, {"bf16_speedup", 0.0}}; }
  /// rush.ranks(): how many processes can train one model together, on GPUs or on CPUs.
  virtual int64_t ranks([[maybe_unused]] bool on_gpus) { return 1; }
  /// Bytes that a step of this spec takes at its peak, by its plan; none where that can't be predicted.
  virtual std::optional<int64_t> predicted_peak(const RunSpec&) { return std::nullopt; }
  /// Whether two real steps stay within the memory; none: a dry run cannot know.
  virtual std::optional<bool> holds(const MemoryTrial&) { return std::nullopt; }
};

struct ScriptOptions {
  std::vector<std::string> plugin_path;  ///< searched first for plugins, whose options the script may name
  std::filesystem::path library;         ///< scripts/ of the installation: what `require "optrush"` finds
  std::string device = {};               ///< of --device: auto, cpu, cuda; empty: not given
  std::string preset = {};               ///< of --preset; empty: the script's first
  std::map<std::string, std::string> arguments = {};  ///< of --arg
  /// Of Lua's virtual machine: about ten seconds. What functions of C and the host do is not counted.
  int64_t most_instructions = 1'000'000'000;
};

/// Executes one Lua file. Errors carry script:line and a hint; what `host` throws comes through unchanged.
void run_script(const std::filesystem::path& script, ScriptHost& host, const ScriptOptions&);
}  // namespace optrush
