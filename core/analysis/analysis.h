#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/gate/gate.h"
#include "analysis/noise.h"
#include "analysis/numbers/statistics.h"
#include "analysis/quality.h"
#include "analysis/scaling.h"
#include "analysis/time_to_loss.h"
#include "results/stored.h"

namespace optrush {
/// Speed and memory of a row relative to another row.
struct Comparison {
  int64_t variant = -1;  ///< the other row; -1: none
  std::string name;
  std::vector<std::string> between;  ///< rungs between the two rows, whose changes are part of the comparison
  /// Why the problems differ: "8 instead of 4 sequences per step"; empty: they are equal.
  std::string differs;
  std::optional<Ratio> speed;         ///< ratio of tokens processed per second, paired by round
  std::optional<double> memory;       ///< ratio of peak memory
  std::optional<Ratio> time_to_loss;  ///< paired_time_to_loss(), for the same model and data
  std::optional<Ratio> perplexity;    ///< paired_perplexity(), for the same
  /// Set if the row's loss is clearly higher, for the same model and data, unless only one of the two rows
  /// freezes parameters.
  std::optional<Worse> worse;
};

/// The steps of a round that were interleaved with those of other runs.
struct InterleavedSamples {
  std::string group;  ///< the group of runs that were interleaved with each other; "": the run was alone
  /// Tokens/s of the timed steps by step number, in order; empty if the run was alone.
  std::vector<std::pair<int64_t, double>> speed;
};
InterleavedSamples interleaved(const RunResult&);

/// The check that a training learns one repeated batch (TrainSpec::overfit).
struct Overfit {
  double required = 0;  ///< limit for the last loss
  double last = 0;      ///< the largest last loss of the runs
  bool learned() const { return last < required; }
};

/// The gate's check of a row.
struct RowCheck {
  std::optional<double> loss_change;  ///< difference from the gate's reference, at the last common step
  int64_t loss_change_at = 0;         ///< number of that step, counted from 1
  std::string loss_against;           ///< the gate's reference: a rung's name, or "its reference run"
  std::vector<double> losses_apart;   ///< relative difference from the reference, by step
  std::string gate;                   ///< how the gate checked it
  GateVerdict verdict;
  bool checked = true;             ///< false: the gate's reference is missing
  std::optional<Overfit> overfit;  ///< none: not requested, or no run ended well
};

/// A variant over all its rounds. A number that was not measured is absent, never zero.
struct Row : RowCheck {
  int64_t variant = 0;
  std::string name, group;
  int64_t same_as = -1;   ///< the variant whose runs it shows; -1: its own
  bool external = false;  ///< another program trained it
  Status status = Status::ok;
  std::string reason;             ///< reason of a status that is not ok
  std::optional<ErrorCode> code;  ///< error code of that status; none: not known
  std::vector<std::string> notes;
  std::vector<std::string> warnings;  ///< warnings of its runs, without repetition
  bool started = true;                ///< false: none of its runs has a result
  bool asked = true;                  ///< false: left out by --only, so neither planned nor run
  size_t missing_rounds = 0;          ///< number of rounds that `--resume` would run

  int64_t devices = 1;  ///< number of ranks
  /// Hardware of all ranks, in units of the hardware whose peak was measured (hardware_used()).
  double hardware = 1;
  std::vector<int64_t> rounds;            ///< rounds that ended well
  std::vector<double> samples;            ///< tokens processed per second on all devices, in these rounds
  std::vector<InterleavedSamples> turns;  ///< interleaved steps of these rounds
  std::vector<RoundEnd> ends;             ///< ends of all rounds that ended well
  /// Tokens per second on all devices: processed, and with a loss. padding: share of padding in the positions
  /// of the round that `steps` has.
  std::optional<double> tokens_per_second, trained_tokens_per_second, padding;
  std::optional<double> step_seconds;
  Phases phases;
  Phases traced;  ///< seconds of the traced step by kind of work, then gaps; of the first round that has any
  Comparison previous, base;

  Memory memory;
  std::optional<double> prediction_error;        ///< predicted peak / measured peak - 1
  std::optional<double> model_flops_per_second;  ///< by the formula `mfu`, on all devices
  std::optional<double> mfu, mfu_causal, hfu;
  std::optional<double> mfu_sustained;  ///< MFU relative to sustained_rate(); none on a CPU
  std::string dtype;                    ///< dtype of matrix products; empty: a plugin chooses another
  std::optional<double> mfu_of_dtype;   ///< MFU relative to the peak of `dtype`, if `mfu` uses another peak

  /// Steps of the longest round that ended well, the first of equally long ones.
  std::vector<StepResult> steps;
  int64_t shown_round = 0;  ///< that round
  std::optional<double> final_loss;

  std::optional<StepCost> cost;  ///< counted in a warm-up step, otherwise predicted by the plan
  /// Predicted peak of a step in bytes; none if the plan has only bounds.
  std::optional<double> predicted_peak;
  std::optional<PlannedMemory> planned_memory;
  std::optional<Published> published;  ///< published figures for its change
  bool published_here = false;         ///< published for this row's kind of device

  // For several ranks: medians over rounds, and the largest memory.
  std::vector<RankResult> ranks;
  std::vector<MeshDimension> mesh;
  std::vector<Collective> collectives;    ///< collectives of the first round that ended well
  std::optional<double> exposed_seconds;  ///< communication that is not overlapped: median over ranks
  std::optional<double> sent_bytes;       ///< per step, by the rank that sends most

  std::vector<ValidationPoint> validation;  ///< of the round that `steps` has
  std::optional<TimeToLoss> time_to_loss;   ///< none: the experiment has no target, or the row has no losses
  std::vector<CounterResult> counters;      ///< counters of plugins, medians over rounds
  std::vector<std::string> traces;          ///< traces of the first round that has any
  std::vector<SampledText> sample;          ///< texts sampled in the first round
  std::optional<BestState> best;            ///< best state of the first round
  std::string best_state;                   ///< folder of the best state
  std::vector<SavedPoint> saved;            ///< states saved by the first round
  std::optional<double> predicted_state;    ///< predicted size of a state; none: not predicted
  std::string state;                        ///< path of the last saved state in the report's folder

  std::optional<OperatorWork> work;            ///< for kinds of models that declare it
  std::map<std::string_view, double> numbers;  ///< combined numbers of its runs, by Quantity::csv

  bool ok() const { return status == Status::ok; }
  /// Whether it processes tokens without a loss.
  bool trains_on_fewer() const;
  bool pads() const;  ///< whether it processes padding
  /// Whether any round was interleaved.
  bool was_interleaved() const;
  /// Sets a failure. The first one is kept.
  void end_badly(Status, std::string why, std::optional<ErrorCode> = {});
  /// The variant whose runs this row shows.
  int64_t runs_of() const { return same_as < 0 ? variant : same_as; }
};

using Rows = std::vector<const Row*>;
/// The rows that meet `wanted`, in order.
Rows rows_where(Rows rows, auto&& wanted) {
  std::erase_if(rows, [&](const Row* row) { return !std::invoke(wanted, *row); });
  return rows;
}
Rows rows_where(const std::vector<Row>& rows, auto&& wanted) {
  Rows found;
  for (const Row& row : rows)
    if (std::invoke(wanted, row)) found.push_back(&row);
  return found;
}

/// The speed of the base at the start, and when it runs again at the end.
struct Drift {
  double first = 0, last = 0;  ///< tokens/s
};

/// The effect of a rung in the full stack, and alone.
struct AblationLine {
  std::string rung;
  std::optional<Ratio> in_stack;                        ///< full stack relative to the stack without the rung
  std::optional<Ratio> alone;                           ///< the rung alone relative to the base
  std::optional<double> memory_in_stack, memory_alone;  ///< the same ratios of peak memory
  std::string differs;  ///< why it is not like for like: the rung trains something else
};

/// Another program and the fastest rung that solves the same problem.
struct OtherProgram {
  int64_t variant = -1, fastest = -1;
  size_t candidates = 0;  ///< number of rungs of which it is the fastest
  Comparison comparison;  ///< the rung relative to the program
};

/// All content of a report, as data: what its folder stores, and what follows from it.
struct Analysis : Stored {
  explicit Analysis(Stored stored = {}) : Stored(std::move(stored)) {}

  std::vector<Row> rows;  ///< in order of the variants
  Standard standard;      ///< of all ratios of the report together
  std::optional<Drift> drift;
  std::optional<Noise> noise;          ///< noise of the CPU from these probes; none: it was not probed
  std::optional<GpuSteps> gpu;         ///< none: the runs were on a CPU
  std::vector<AblationLine> ablation;  ///< largest effect first
  std::vector<OtherProgram> programs;  ///< fastest first
  std::vector<ScalingSeries> scaling;  ///< series of rows that differ in the number of ranks
  size_t missing_runs = 0;

  const Row* row(int64_t variant) const {
    return variant < 0 ? nullptr : &rows[static_cast<size_t>(variant)];
  }
  const RunSpec& spec(const Row& row) const { return variant(row.variant).spec; }
  /// Whether a row failed or broke the gate. Skipped rows and missing runs are not failures.
  bool any_failed() const;
};

Analysis analyze(Stored);

/// The ratio of tokens/s over the rounds that both have; none without such a round. Each round is one sample:
/// if both were interleaved, the median of the ratios step by step, otherwise the ratio of their medians.
/// With at least kMinRounds interleaved rounds, only those count.
std::optional<Ratio> paired_speed(const Row& subject, const Row& reference, const Standard& = {});

/// One of the ratios of a comparison.
using Quotient = std::optional<Ratio> Comparison::*;

/// The standard of a single ratio of an experiment. If its rounds end when the intervals are narrow,
/// intervals are wider, because they were looked at after each round.
Standard standard_of(const Experiment&);

/// The standard of all ratios of a report together: their number, and the variance that the pairs have in
/// common in such ratios. Each has the standard of a single ratio before. A race makes no claims, so it keeps
/// that one.
Standard standard_together(const Analysis&, Quotient);

/// The estimated seconds of additional rounds until each row that is ok shares kMinRounds rounds with its
/// references, at the speed of the latest rounds; 0: all do.
double seconds_to_claims(const Analysis&);

/// "about 40 s", "about 4 min", "about 2.5 h"; rounded up.
std::string about_time(double seconds);

/// The difference between the problems of two variants, of one report or of two: "8 instead of 4 sequences
/// per step"; empty if their speeds are comparable.
std::string difference_of_problems(const Stored& of_subject, int64_t subject, const Stored& of_reference,
                                   int64_t reference);
/// Whether the two train different models, functions or tasks.
bool other_function(const Plan&, const Plan&);
/// Whether only one of the two freezes a part of the parameters. Their losses then show the choice of what is
/// trained, not an error.
bool other_parameters(const Plan&, const Plan&);
/// Whether two specs train the same thing for the same number of steps.
bool same_work(const RunSpec&, const RunSpec&);
/// Whether losses of two specs are comparable: same model, data and lengths.
bool same_task(const RunSpec&, const RunSpec&);

/// The first row with this name; null: none.
const Row* row_named(const std::vector<Row>&, const std::string& name);

/// The peak FLOP/s of a device by which every MFU of the report divides.
std::optional<double> mfu_denominator(const Json& context);
/// The highest FLOP/s that a GPU held for seconds in products of the type of mfu_denominator(); none if the
/// peak is that of a CPU, or was measured by a build without sustained products.
std::optional<double> sustained_rate(const Json& context);
/// Why the true peak may be higher than the measured one; "": there is no reason.
std::string doubt_of_peak(const Json& context);
/// Whether a report's machine has a stand-in for a GPU (machine/stand_in.h), from its context.json.
bool ran_on_stand_in(const Json& context);
/// Throws an Error with the folder if it has.
void refuse_stand_in(const Json& context, const std::string& folder);
/// The measured peak FLOP/s of a device for a dtype: "fp32", "bf16".
std::optional<double> peak_of_dtype(const Json& context, const std::string& dtype);
/// The measured bandwidth of memory in bytes per second.
std::optional<double> bandwidth_of(const Json& context);
/// The number at a JSON pointer; none if there is no number.
std::optional<double> number_at(const Json&, const std::string& place);
}  // namespace optrush
