#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiment/gate.h"
#include "optrush/json.h"
#include "results/rank_result.h"

namespace optrush {
enum class Status : uint8_t { ok, oom, failed, crashed, timeout, skipped, broken };
std::string_view to_string(Status);

/// Seconds by name in the order of a step; none where a phase can't be told apart.
using Phases = std::vector<std::pair<std::string, std::optional<double>>>;

struct StepResult {
  int64_t step = 0;
  bool timed = false;
  double loss = 0, grad_norm = 0;  ///< NaN where it was not finite
  double learning_rate = 0;        ///< NaN where a program does not tell it
  int64_t trained = 0;             ///< tokens that a loss is taken on
  int64_t tokens = 0;              ///< tokens that the model processes: every position but padding
  int64_t positions = 0;           ///< padding among them
  double seconds = 0;
  Phases phases;
};

/// Bytes at their peaks: active in the allocator, reserved by it, of the process. And of the tensors of a
/// step by kind: parameters, gradients, optimizer_state, activations (what the backward keeps), total. They
/// need not all be there at once, and temporary ones are none of them.
struct Memory {
  std::optional<double> allocated, reserved, process;
  std::vector<std::pair<std::string, double>> parts;

  std::optional<double> total_of_parts() const;
};

/// What the operators of one step cost a GPU (measure/operator_costs.h); none: the device does not show it.
struct StepCost {
  std::optional<double> launches, host_waits, copies, copied_bytes, casts, cast_bytes, casts_of_a_weight,
      elementwise_bytes, matmul_flops, attention_flops;
};

/// The loss on data that training never reads.
struct ValidationPoint {
  int64_t step = 0;  ///< that the parameters are about to train on
  double loss = 0;
};

/// A number that a plugin tells of a run, over its ranks.
struct CounterResult {
  std::string plugin, name, unit;
  bool per_step = false;  ///< else of the whole run
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

/// What the trained model made of a prompt.
struct SampledText {
  std::string prompt, text;
};

/// Where a run's validation loss was lowest, whose state it kept.
struct BestState {
  int64_t step = 0;
  double loss = 0;
};

/// What one run measured (docs/schema/run_result.schema.json).
struct RunResult {
  Status status = Status::ok;
  std::string reason;
  std::optional<double> requested_bytes;
  std::string device;
  bool on_gpu = false;
  std::optional<double> threads;  ///< of a rank's operators on a CPU
  Json plan, plugins = Json::array();
  std::vector<StepResult> steps;
  std::optional<double> tokens_per_second, trained_tokens_per_second, step_seconds;
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
  std::string turns;  ///< of the runs that took turns with this one: they all have it; "": it ran alone
  std::string cut;    ///< why it ended before its last step: "time limit", "interrupt"; "": it did not
  // Of runs of several ranks; empty for one.
  std::vector<RankResult> ranks;
  std::vector<MeshDimension> mesh;  ///< outermost first
  std::vector<Collective> collectives;

  /// Losses and gradient norms by step.
  Curve curve() const;
  /// Of the timed steps together.
  int64_t timed_tokens() const;
  /// The part of their positions that is padding; none: it has no steps.
  std::optional<double> padding() const;
};

/// Strict: unknown keys, missing ones and wrong types are Errors that name `where`.
RunResult run_result_from_json(const Json&, const std::string& where);

/// Who trained: another program need not report gradient norms.
enum class Trainer : uint8_t { worker, other_program };

/// Why the training of a run that ended well is no training: a loss that is not finite, a gradient norm that
/// is zero or not finite. Empty where it is one. A norm may be infinite during warm-up, where a gradient
/// scaler finds its scale.
std::string unhealthy(const RunResult&, Trainer);
}  // namespace optrush
