#pragma once
#include "distributed/groups.h"
#include "measure/gpus.h"
#include "measure/memory.h"
#include "recipe/run_recipe.h"
#include "results/run_result.h"
#include "train/session.h"

namespace optrush {
/// Reads the counters of plugins (Recipe::counter) over the timed steps of this rank.
class Counters {
 public:
  explicit Counters(const RunRecipe& recipe) : recipe_(recipe) {}

  /// Called at the start and the end of timed steps. Errors name the plugin.
  void start();
  void stop();
  /// One result per counter, in order of the recipe.
  std::vector<CounterResult> results(int64_t steps) const;

 private:
  std::vector<double> read() const;
  const RunRecipe& recipe_;
  std::vector<double> before_, last_, added_;
};

/// Combines the counters of all ranks: the sum, mean or maximum, as the plugin declares.
std::vector<CounterResult> over_ranks(const std::vector<std::vector<CounterResult>>& ranks);

/// Measures peak memory, energy, traffic and the counters of plugins over all timed steps.
class Measurement {
 public:
  explicit Measurement(Session&);

  /// Called at the start and at the end of timed steps, when the device has finished them.
  void start();
  void stop();
  bool is_on() const { return on_; }

  /// Energy of all timed steps; none if it is not known for one of them.
  std::optional<double> joules() const { return joules_; }
  /// Adds the energy that an interrupted run had measured.
  void resume_joules(std::optional<double> before) { joules_ = before; }

  /// What the GPU did in the timed steps of this process; none on a CPU and without NVML.
  std::optional<GpuUse> gpu() const;
  /// Warns if the GPU lowered its clock for another reason than its power limit.
  void warn() const;

  const MemoryPeak& peak() const { return peak_; }
  /// Bytes that the process holds on the device.
  std::optional<int64_t> process_bytes() const;
  /// The traffic of each collective in each group per step, with the theoretical bytes.
  std::vector<Collective> collectives(int64_t steps) const;
  /// Empty if no plugin has counters.
  std::vector<CounterResult> counters(int64_t steps) const { return counters_.results(steps); }

 private:
  Session& session_;
  bool on_ = false;
  GpuMeter meter_;
  std::optional<double> joules_ = 0;
  MemoryPeak peak_;
  Counters counters_;
  TrafficTable at_start_, sent_;
};

/// Adds the ranks' own results and the mesh to rank 0's result, and combines what each rank counted:
/// operations, energy, counters of plugins. Every rank calls it. Does nothing for one rank.
void add_ranks(RunResult& result, Session&, const std::string& device);
}  // namespace optrush
