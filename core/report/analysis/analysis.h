#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiment/gate.h"
#include "experiment/planned_memory.h"
#include "report/analysis/gpu_steps.h"
#include "report/analysis/noise.h"
#include "report/analysis/paired_speed.h"
#include "report/analysis/quality.h"
#include "report/analysis/scaling.h"
#include "report/analysis/time_to_loss.h"
#include "report/numbers/statistics.h"
#include "results/stored.h"

namespace optrush {
/// A row's speed and memory over another's.
struct Comparison {
  int64_t variant = -1;  ///< the other row; -1: there is none
  std::string name;
  std::vector<std::string> between;  ///< rungs from the other to this one, whose changes count here, too
  std::string differs;  ///< why it is not the same problem: "8 instead of 4 sequences per step"; empty: it is
  std::optional<Ratio> speed;    ///< tokens processed a second over the other's, paired by round
  std::optional<double> memory;  ///< peak memory divided by the other's
  std::optional<Worse> worse;    ///< the row's loss is clearly above the other's, of the same model and data
};

/// The check that a training learns one repeated batch (TrainSpec::overfit).
struct Overfit {
  double required = 0;  ///< the last loss has to be below this
  double last = 0;      ///< the largest last loss of its runs
  bool learned() const { return last < required; }
};

/// One variant over all its rounds. What was not measured is absent, never zero.
struct Row {
  int64_t variant = 0;
  std::string name, group;
  int64_t same_as = -1;   ///< the variant whose runs it shows; -1: its own
  bool external = false;  ///< another program trained it
  Status status = Status::ok;
  std::string reason;             ///< of a status that is not ok
  std::optional<ErrorCode> code;  ///< of the same; none: not known
  std::vector<std::string> notes;
  std::vector<std::string> warnings;  ///< of its runs, each once
  bool started = true;                ///< false: no run of it has a result
  bool asked = true;                  ///< false: neither planned nor run, as --only names others
  size_t missing_rounds = 0;          ///< that `--resume` would still run

  int64_t devices = 1;          ///< its ranks
  double hardware = 1;          ///< of them, in units of what the peak was measured on (hardware_used.h)
  std::vector<int64_t> rounds;  ///< that ended well
  std::vector<double> samples;  ///< tokens processed a second, of all devices in those rounds
  std::vector<InterleavedSamples> turns;  ///< what it shared with other rows in those rounds
  /// Tokens processed, of all devices; those that a loss is taken on; and the part of the positions that is
  /// padding, of the first round.
  std::optional<double> tokens_per_second, trained_tokens_per_second, padding;
  std::optional<double> tokens_per_second_per_device, step_seconds;
  Phases phases;
  Comparison previous, base;

  Memory memory;
  std::optional<double> prediction_error;        ///< predicted_peak / measured - 1
  std::optional<double> model_flops_per_second;  ///< by the formula `mfu`, all devices
  std::optional<double> mfu, mfu_causal, hfu;
  std::string dtype;                   ///< that it multiplies in; empty: a plugin chooses another
  std::optional<double> mfu_of_dtype;  ///< over the peak of that, where the MFU divides by another

  std::vector<StepResult> steps;  ///< of the first round that ended well
  std::optional<double> final_loss;
  std::optional<double> loss_change;  ///< to what the gate compares with, at the last step that both have
  int64_t loss_change_at = 0;         ///< that step, counted from 1
  std::string loss_against;           ///< what that is: a rung's name, "its reference run"
  std::vector<double> losses_apart;   ///< relative distance from that, by step
  std::string gate;                   ///< how it was checked
  GateVerdict verdict;
  bool checked = true;             ///< false: what the gate wanted to compare with is missing
  std::optional<Overfit> overfit;  ///< none: not asked for, or no run ended well

  std::optional<StepCost> cost;          ///< counted in a warm-up step; else as the plan predicts it
  std::optional<double> predicted_peak;  ///< bytes of a step, by the plan; none where it has bounds alone
  std::optional<PlannedMemory> planned_memory;
  std::optional<Published> published;  ///< of its change, by others
  bool published_here = false;         ///< on a device like that of this row

  // Of several ranks: medians over rounds, and the largest memory.
  std::vector<RankResult> ranks;
  std::vector<MeshDimension> mesh;
  std::vector<Collective> collectives;    ///< of the first round
  std::optional<double> exposed_seconds;  ///< of communication that nothing hides: median over ranks
  std::optional<double> sent_bytes;       ///< in a step, by the rank that sends most

  std::vector<ValidationPoint> validation;  ///< of the first round
  std::optional<TimeToLoss> time_to_loss;   ///< none: the experiment has no target, or the row no losses
  std::vector<CounterResult> counters;      ///< of plugins, medians over rounds
  std::vector<std::string> traces;          ///< of the first round that has any
  std::vector<SampledText> sample;          ///< by the first round
  std::optional<BestState> best;            ///< the same
  std::string best_state;                   ///< its folder
  std::vector<SavedPoint> saved;            ///< by the first round
  std::string state;                        ///< where the last of them is, in the report's folder

  std::optional<OperatorWork> work;  ///< of models that say what it is
  std::optional<double> compile_seconds, setup_seconds, joules_per_token, cost_per_million_tokens;

  bool ok() const { return status == Status::ok; }
  /// Whether it processes tokens that it does not train on, or padding.
  bool trains_on_fewer() const;
  /// In any round.
  bool was_interleaved() const;
  /// What ended it first stays.
  void end_badly(Status, std::string why, std::optional<ErrorCode> = {});
  /// The variant whose runs it shows.
  int64_t runs_of() const { return same_as < 0 ? variant : same_as; }
};

/// The base run again after everything else.
struct Drift {
  double first = 0, last = 0;  ///< tokens/s
};

/// What one rung is worth in the full stack, and on its own.
struct AblationLine {
  std::string rung;
  std::optional<Ratio> in_stack;                        ///< full stack over the stack without it
  std::optional<Ratio> alone;                           ///< alone over the base
  std::optional<double> memory_in_stack, memory_alone;  ///< of the active peak, in the same way
  std::string differs;  ///< why it is not like for like in either: the rung trains something else
};

/// Another program beside the fastest rung of the host that solves the same problem.
struct OtherProgram {
  int64_t variant = -1, fastest = -1;
  Comparison comparison;  ///< of that rung with the program
};

/// Everything that a report says, as data.
struct Analysis {
  Experiment experiment;
  Json context;
  std::string headline;  ///< the answer in one sentence: what a report opens with
  std::vector<std::string>
      findings;           ///< sentences with the intervals, the most important first; at least one
  std::vector<Row> rows;  ///< in the order of the variants
  std::vector<Variant> variants;
  Plans plans;
  std::optional<Drift> drift;
  Json tried;                          ///< Stored::tried
  std::vector<NoiseLine> probes;       ///< of the machine's noise
  std::optional<Noise> noise;          ///< of the CPU, by these lines; none: it was not probed
  std::optional<GpuSteps> gpu;         ///< none: the runs were not on a GPU
  std::vector<AblationLine> ablation;  ///< most valuable first
  std::vector<StoredRun> runs;         ///< raw samples
  std::vector<OtherProgram> programs;  ///< fastest first
  std::vector<ScalingSeries> scaling;  ///< rows that differ in the number of ranks
  size_t missing_runs = 0;

  const Row* row(int64_t variant) const {
    return variant < 0 ? nullptr : &rows[static_cast<size_t>(variant)];
  }
  const RunSpec& spec(const Row& row) const { return variants[static_cast<size_t>(row.variant)].spec; }
  /// A row ended badly or broke the gate; what was skipped or has not run yet is no failure.
  bool any_failed() const;
};

Analysis analyze(const Stored&);
/// Without a copy of its runs.
Analysis analyze(Stored&&);

/// By what the ratios of an experiment are judged: where its rounds ended when the intervals were narrow,
/// they were looked at after each of them, and the intervals are wider for that.
Standard standard_of(const Experiment&);

/// What each rung of the ablations adds; most valuable first.
std::vector<AblationLine> rank_ablation(const Experiment&, const std::vector<Row>&);

/// Peak FLOP/s of one device that every MFU of the report is divided by, and where it comes from.
std::optional<double> mfu_denominator(const Json& context);
/// Peak FLOP/s of one device that was measured in an arithmetic: "fp32", "bf16".
std::optional<double> peak_of_dtype(const Json& context, const std::string& dtype);

/// Analysis::findings of all the rest.
std::vector<std::string> findings(const Analysis&);
/// Analysis::headline of all the rest, findings included. It claims nothing that the table does not show to
/// be sure, and names no rung as faster or slower that is undecided.
std::string headline(const Analysis&);
/// All of them on one line.
std::string finding_text(const Analysis&);
}  // namespace optrush
