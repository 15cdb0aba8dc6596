#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiment/plan.h"
#include "optrush/json.h"
#include "results/status.h"
#include "spec/record.h"

namespace optrush {
/// Seconds of each phase in the order of a step; none: the phase can't be measured separately.
using Phases = std::vector<std::pair<std::string, std::optional<double>>>;
/// The sum of the known ones.
double total_seconds(const Phases&);
/// The value of a name in a list of pairs; none if it is missing.
template <class Value>
std::optional<double> value_named(const std::vector<std::pair<std::string, Value>>& pairs,
                                  std::string_view wanted) {
  for (const auto& [name, value] : pairs)
    if (name == wanted) return value;
  return std::nullopt;
}

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct StepResult {
  int64_t step = 0;
  bool timed = false;
  double loss = kNaN, grad_norm = kNaN;        ///< NaN if not finite
  double learning_rate = kNaN;                 ///< NaN if a program does not report it
  int64_t trained = 0;                         ///< number of tokens with a loss
  int64_t tokens = -1;                         ///< positions without padding
  int64_t positions = -1;                      ///< positions including padding
  std::optional<double> attention_pairs = {};  ///< pairs of positions in attention, mean over the layers
  double seconds = 0;
  Phases phases;
};

/// Peak bytes: active in the allocator, reserved by the allocator, and of the process. `parts` are the bytes
/// of a step's tensors by kind: parameters, gradients, optimizer_state, activations (kept for the backward)
/// and their total. These need not exist at the same time, and temporary tensors are not among them.
struct Memory {
  std::optional<double> allocated, reserved, process;
  std::vector<std::pair<std::string, double>> parts;
};

/// Costs of the operators of one step on a GPU (measure/operator_costs.h); none: not known for the device.
struct StepCost {
  std::optional<double> launches, host_waits, copies, copied_bytes, casts, cast_bytes, casts_of_a_weight,
      elementwise_bytes, matmul_flops, attention_flops;
};

/// A loss on the data of RunSpec::validate.
struct ValidationPoint {
  int64_t step = 0;  ///< the next training step
  double loss = 0;
  std::optional<double> seconds = {};
};

/// A number that a plugin reports for a run, combined over the ranks.
struct CounterResult {
  std::string plugin, name, unit;
  bool per_step = false;        ///< false: for the whole run
  std::string over_ranks = {};  ///< how the ranks' values are combined: "sum", "mean", "max"
  double value = 0;
  bool same_as(const CounterResult& other) const {
    return plugin == other.plugin && name == other.name && unit == other.unit && per_step == other.per_step;
  }
};

/// A saved state of a run.
struct SavedPoint {
  int64_t step = 0;  ///< the next training step
  double seconds = 0, bytes = 0;
};

/// The trained model's continuation of a prompt.
struct SampledText {
  std::string prompt, text;
};

/// A GPU in the timed steps, by NVML; means over the ranks.
struct GpuUse {
  std::optional<double> watts, sm_clock_mhz, power_limit_watts;
  std::optional<double> at_power_cap;  ///< share of the time in which the power limit lowered the clock

  static constexpr std::array<std::optional<double> GpuUse::*, 4> members() {
    return {&GpuUse::watts, &GpuUse::sm_clock_mhz, &GpuUse::power_limit_watts, &GpuUse::at_power_cap};
  }
  bool is_known() const { return watts || sm_clock_mhz || power_limit_watts || at_power_cap; }
};

/// From this share of the time on, a GPU counts as running at its power cap.
inline constexpr double kAtPowerCap = 0.5;

/// Means over the timed steps, summed over all ranks.
struct TokensPerStep {
  std::optional<double> processed, trained, padding;  ///< padding: its share of all positions
};

/// The step with the lowest validation loss. The run keeps the state of this step.
struct BestState {
  int64_t step = 0;
  double loss = 0;
};

/// The result of one rank of a run with several ranks. Seconds are medians over the timed steps; sent bytes
/// are per step.
struct RankResult {
  int64_t rank = 0;
  std::string host, device;
  std::optional<double> step_seconds;     ///< of the whole step
  std::optional<double> busy_seconds;     ///< without exposed communication
  std::optional<double> exposed_seconds;  ///< communication that is not overlapped with computation
  std::optional<double> peak_allocated, peak_reserved, process;  ///< bytes, as in Memory
  std::optional<double> parts;                                   ///< the total of Memory::parts
  std::optional<double> sent_bytes;
};

/// Cost per step of one kind of collective on rank 0, over one dimension of the mesh.
struct Collective {
  std::string name, group;
  int64_t ranks = 1;
  std::optional<double> calls;
  std::optional<double> bytes;         ///< size of the tensors
  std::optional<double> sent_bytes;    ///< sent by this rank
  std::optional<double> theory_bytes;  ///< sent by an optimal algorithm
};

/// The losses and gradient norms of a run by step. NaN: a loss that is not finite, or a norm that is not
/// known because the update was skipped or another program does not report it.
struct Curve {
  std::vector<double> losses, norms;
};

/// The result of one run (docs/schema/run_result.schema.json).
struct RunResult {
  Status status = Status::ok;
  std::string reason;
  std::optional<ErrorCode> code;  ///< code of the error; none: no error, or another program wrote the result
  std::string where;              ///< place of the error, or ""
  std::optional<double> requested_bytes;
  std::string device;
  bool on_gpu = false;
  std::optional<double> threads;  ///< threads of the operators of a rank on a CPU
  std::optional<Plan> plan;
  std::vector<UsedPlugin> plugins;
  std::vector<StepResult> steps;
  std::optional<double> tokens_per_second, trained_tokens_per_second, step_seconds;
  TokensPerStep tokens_per_step;
  Phases phases;
  Phases traced;  ///< seconds of the traced step by kind of work, then gaps; empty: not traced
  Memory memory;
  std::optional<double> mfu_flops, mfu_causal_flops, hfu_flops;  ///< FLOPs per token, by each formula
  Json costs;  ///< costs of the operators of a step; null: not counted
  double compile_seconds = 0, setup_seconds = 0;
  std::optional<double> energy_joules;
  std::optional<GpuUse> gpu;
  std::vector<std::string> notes;
  std::vector<std::string> warnings;        ///< reasons to doubt the result
  std::vector<ValidationPoint> validation;  ///< in order of steps
  std::vector<SampledText> sample;
  std::optional<BestState> best;
  std::vector<SavedPoint> saved;  ///< in order of steps
  std::vector<CounterResult> counters;
  std::string turns;  ///< id of the group of interleaved runs that this run was in; "": it ran alone
  std::string cut;    ///< why the run ended before its last step: "time limit", "interrupt"; "": it did not
  std::optional<Cause> cause;
  std::optional<int64_t> rank;  ///< of several ranks, the one that failed first
  // Empty for a run with one rank.
  std::vector<RankResult> ranks;
  std::vector<MeshDimension> mesh;  ///< outermost first
  std::vector<Collective> collectives;

  RunResult() = default;
  /// The result of a run that failed.
  explicit RunResult(BadEnd end)
      : status(end.status), reason(std::move(end.reason)), code(code_of(end)), where(std::move(end.where)) {}

  bool ok() const { return status == Status::ok; }
  /// Removes times of steps, and all that follows from them: they do not show how fast the training is.
  void withhold_speeds();
  /// Seconds before the first step: set-up and compilation.
  double start_seconds() const { return setup_seconds + compile_seconds; }
  /// Whether any step has a finite loss. A program need not report losses.
  bool has_losses() const;
  /// Losses and gradient norms by step.
  Curve curve() const;
  /// Sum over the timed steps.
  int64_t timed_tokens() const;
  /// Share of padding in the positions of all steps, which a resumed run does not change; none: no steps.
  std::optional<double> padding() const;
  /// Seconds of the timed steps together.
  double timed_seconds() const;
};

Record<RankResult> record_of(const RankResult*);
Record<Collective> record_of(const Collective*);
Record<StepResult> record_of(const StepResult*);
Record<ValidationPoint> record_of(const ValidationPoint*);
Record<SavedPoint> record_of(const SavedPoint*);
Record<RunResult> record_of(const RunResult*);

/// Sets fields that a stored step leaves out because they follow from others: a program without padding need
/// not count positions. Throws an Error if the counts are impossible.
void complete(StepResult&);
/// Reads strictly: unknown keys, missing ones and wrong types are Errors with `where`.
RunResult run_result_from_json(const Json&, const std::string& where);

/// Which program trained. An external program need not report losses and gradient norms.
enum class TrainedBy : uint8_t { worker, other_program };

/// The reason why a run with status ok did not train: a loss that is not finite, a gradient norm that is
/// zero, or no update in any timed step. Empty for a healthy run. A loss scale skips single updates as it is
/// meant to.
std::string unhealthy(const RunResult&, TrainedBy);
}  // namespace optrush
