#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiment/gate.h"
#include "experiment/plan.h"
#include "optrush/json.h"
#include "results/rank_result.h"
#include "results/status.h"

namespace optrush {
/// Seconds by name in the order of a step; none where a phase can't be told apart.
using Phases = std::vector<std::pair<std::string, std::optional<double>>>;

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct StepResult {
  int64_t step = 0;
  bool timed = false;
  double loss = kNaN, grad_norm = kNaN;  ///< NaN where it was not finite
  double learning_rate = kNaN;           ///< NaN if a program does not report it
  int64_t trained = 0;                   ///< tokens that a loss is taken on
  int64_t tokens = -1;                   ///< tokens that the model processes: every position but padding
  int64_t positions = -1;                ///< padding among them
  std::optional<double> attention_pairs = {};  ///< of positions, as the mean over the layers
  double seconds = 0;
  Phases phases;
};

/// Bytes at their peaks: active in the allocator, reserved by it, of the process. And of the tensors of a
/// step by kind: parameters, gradients, optimizer_state, activations (what the backward keeps), total. They
/// need not all be there at once, and temporary ones are none of them.
struct Memory {
  std::optional<double> allocated, reserved, process;
  std::vector<std::pair<std::string, double>> parts;
};

/// GPU costs of the operators of one step (measure/operator_costs.h); none: not known for the device.
struct StepCost {
  std::optional<double> launches, host_waits, copies, copied_bytes, casts, cast_bytes, casts_of_a_weight,
      elementwise_bytes, matmul_flops, attention_flops;
};

/// The loss on data that training never reads.
struct ValidationPoint {
  int64_t step = 0;  ///< that the parameters are about to train on
  double loss = 0;
  std::optional<double> seconds = {};
};

/// A number that a plugin reports for a run, over its ranks.
struct CounterResult {
  std::string plugin, name, unit;
  bool per_step = false;        ///< else of the whole run
  std::string over_ranks = {};  ///< what is made of the ranks' values: "sum", "mean", "max"
  double value = 0;
  bool same_as(const CounterResult& other) const {
    return plugin == other.plugin && name == other.name && unit == other.unit && per_step == other.per_step;
  }
};

/// A state that a run has saved.
struct SavedPoint {
  int64_t step = 0;  ///< the next one
  double seconds = 0, bytes = 0;
};

/// The trained model's continuation of a prompt.
struct SampledText {
  std::string prompt, text;
};

/// Means of the timed steps, over all ranks.
struct TokensPerStep {
  std::optional<double> processed, trained, padding;  ///< padding: its part of all positions
};

/// Where a run's validation loss was lowest, whose state it kept.
struct BestState {
  int64_t step = 0;
  double loss = 0;
};

/// The result of one run (docs/schema/run_result.schema.json).
struct RunResult {
  Status status = Status::ok;
  std::string reason;
  std::optional<ErrorCode> code;  ///< of an error; none: it is ok, or another program wrote the result
  std::string where;              ///< place of the error, if it has one
  std::optional<double> requested_bytes;
  std::string device;
  bool on_gpu = false;
  std::optional<double> threads;  ///< of a rank's operators on a CPU
  std::optional<Plan> plan;
  std::vector<UsedPlugin> plugins;
  std::vector<StepResult> steps;
  std::optional<double> tokens_per_second, trained_tokens_per_second, step_seconds;
  TokensPerStep tokens_per_step;
  Phases phases;
  Memory memory;
  std::optional<double> mfu_flops, mfu_causal_flops, hfu_flops;  ///< FLOPs a token, by each formula
  Json costs;                                                    ///< of a step; null: not counted
  double compile_seconds = 0, setup_seconds = 0;
  std::optional<double> energy_joules;
  std::vector<std::string> notes;
  std::vector<std::string> warnings;        ///< what puts the result in doubt
  std::vector<ValidationPoint> validation;  ///< in order of steps
  std::vector<SampledText> sample;
  std::optional<BestState> best;
  std::vector<SavedPoint> saved;  ///< the same
  std::vector<CounterResult> counters;
  std::string
      turns;  ///< of the runs that were interleaved with this one, all of which have it; "": it ran alone
  std::string cut;  ///< why it ended before its last step: "time limit", "interrupt"; "": it did not
  std::optional<Cause> cause;
  std::optional<int64_t> rank;  ///< of several, the one that failed first
  // Of runs of several ranks; empty for one.
  std::vector<RankResult> ranks;
  std::vector<MeshDimension> mesh;  ///< outermost first
  std::vector<Collective> collectives;

  RunResult() = default;
  /// One that says no more than how a run ended.
  explicit RunResult(BadEnd end)
      : status(end.status), reason(std::move(end.reason)), code(code_of(end)), where(std::move(end.where)) {}

  bool ok() const { return status == Status::ok; }
  /// Losses and gradient norms by step.
  Curve curve() const;
  /// Of the timed steps together.
  int64_t timed_tokens() const;
  /// The part of their positions that is padding; none: it has no steps.
  std::optional<double> padding() const;
};

const Record<StepResult>& record_of(const StepResult*);
const Record<ValidationPoint>& record_of(const ValidationPoint*);
const Record<SavedPoint>& record_of(const SavedPoint*);

/// Strict: unknown keys, missing ones and wrong types are Errors that name `where`.
RunResult run_result_from_json(const Json&, const std::string& where);
Json to_json(const RunResult&);
/// docs/schema/run_result.schema.json, made from the same declaration.
Json run_result_schema();

/// The program that trained: an external one need not report gradient norms.
enum class TrainedBy : uint8_t { worker, other_program };

/// Why the training of a run that ended well is no training: a loss that is not finite, a gradient norm that
/// is zero or not finite. Empty where it is one. A norm may be infinite during warm-up, where a gradient
/// scaler finds its scale.
std::string unhealthy(const RunResult&, TrainedBy);
}  // namespace optrush
