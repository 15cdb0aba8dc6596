// Quantities: names, speed, memory and utilization of a rung.
#include "report/analysis/quantity_parts.h"
#include "report/numbers/verdict.h"

namespace optrush {
namespace {
using namespace quantity_parts;

/// The meaning of `row` and the other columns of a comparison.
struct ComparisonDocs {
  const char *row, *ratio, *low, *high, *verdict, *differs;
};

/// The columns of the comparison with the row `name`.
std::vector<Quantity> compared(const std::string& name, Comparison Row::*with, const ComparisonDocs& docs) {
  const std::string vs = "vs_" + name;
  const auto end = [=](double Interval::*of_interval) {
    return [=](A, R r) {
      const auto& speed = (r.*with).speed;
      return speed ? member_of(speed->interval, of_interval) : std::nullopt;
    };
  };
  return {
      {.csv = name, .word = [=](A, R r) { return (r.*with).name; }, .doc = docs.row},
      {.csv = vs,
       .tracked = "speedup_" + vs,
       .value = [=](A, R r) { return member_of((r.*with).speed, &Ratio::value); },
       .doc = docs.ratio},
      {.csv = vs + "_low",
       .tracked = "speedup_" + vs + "_low",
       .value = end(&Interval::low),
       .doc = docs.low},
      {.csv = vs + "_high",
       .tracked = "speedup_" + vs + "_high",
       .value = end(&Interval::high),
       .doc = docs.high},
      {.csv = vs + "_verdict",
       .word =
           [=](A, R r) {
             const auto& speed = (r.*with).speed;
             return speed ? std::string(to_string(verdict_of(*speed).outcome)) : "";
           },
       .doc = docs.verdict},
      {.csv = vs + "_differs", .word = [=](A, R r) { return (r.*with).differs; }, .doc = docs.differs},
  };
}

template <auto Member>
MaybeNumber memory_field(A, R row) {
  return row.memory.*Member;
}

template <auto Member>
MaybeNumber memory_of_run(const RunResult& run) {
  return run.memory.*Member;
}

/// Tensors of a step, by kind.
Quantity part(const std::string& name, const char* title, const char* doc) {
  return {.csv = name + "_bytes",
          .unit = Unit::bytes,
          .value = [=](A, R r) { return value_named(r.memory.parts, name); },
          .title = title,
          .doc = doc};
}

std::vector<Quantity> of_the_rung() {
  return {
      {.csv = "experiment",
       .word = [](A a, R) { return a.experiment.name; },
       .doc = "name of the experiment"},
      {.csv = "label", .word = [](A a, R) { return a.experiment.label; }, .doc = "label of the report"},
      {.csv = "variant",
       .word = [](A, R r) { return std::to_string(r.variant); },
       .doc = "number of the rung; 0 is the base"},
      {.csv = "rung", .word = [](A, R r) { return r.name; }, .doc = "name of the rung"},
      {.csv = "group",
       .word = [](A, R r) { return r.group; },
       .doc = "base, ladder, full, without, alone, grid or external (another program, beside a ladder or an "
              "ablation)"},
      {.csv = "status",
       .word = [](A, R r) { return std::string(to_string(r.status)); },
       .doc = "ok, oom, failed, crashed, timeout, skipped or broken"},
      {.csv = "reason", .word = [](A, R r) { return r.reason; }, .doc = "reason for a status other than ok"},
      {.csv = "rounds",
       .word = [](A, R r) { return std::to_string(r.rounds.size()); },
       .doc = "number of rounds that ended well"},
      {.csv = "devices",
       .word = [](A, R r) { return std::to_string(r.devices); },
       .title = "devices",
       .doc = "number of devices that trained the rung"},
      {.csv = "world_size",
       .word = [](A a, R r) { return std::to_string(a.spec(r).train.world_size); },
       .doc = "number of processes that train one model together"},
      {.csv = "tokens_per_second",
       .json = "tokens_per_second",
       .grid = "tokens_per_second",
       .compared = "tokens_per_second",
       .tracked = "tokens_per_second",
       .run = "tokens_per_second",
       .of_run = member<&RunResult::tokens_per_second>,
       .value = field<&Row::tokens_per_second>,
       .title = "tokens/s",
       .doc =
           "processed tokens per second (every position except padding) of all devices, median over rounds"},
      {.csv = "tokens_per_second_per_device",
       .json = "tokens_per_second_per_device",
       .value =
           [](A, R r) {
             return r.tokens_per_second ? MaybeNumber(*r.tokens_per_second / static_cast<double>(r.devices))
                                        : std::nullopt;
           },
       .title = "tokens/s per device",
       .doc = "tokens_per_second divided by the number of devices"},
      {.csv = "trained_tokens_per_second",
       .json = "trained_tokens_per_second",
       .compared = "trained_tokens_per_second",
       .tracked = "trained_tokens_per_second",
       .run = "trained_tokens_per_second",
       .of_run = member<&RunResult::trained_tokens_per_second>,
       .value = field<&Row::trained_tokens_per_second>,
       .title = "trained tokens/s",
       .of_fewer = true,
       .doc = "tokens with a loss per second of all devices, median over rounds"},
      {.csv = "padding",
       .json = "padding",
       .compared = "padding",
       .run = "padding",
       .unit = Unit::share,
       .of_run = [](const RunResult& run) { return run.padding(); },
       .value = field<&Row::padding>,
       .title = "padding",
       .of_fewer = true,
       .doc = "share of padded positions, 0 to 1"},
      {.csv = "step_seconds",
       .json = "step_seconds",
       .grid = "step_time",
       .run = "step_seconds",
       .unit = Unit::seconds,
       .of_run = member<&RunResult::step_seconds>,
       .value = field<&Row::step_seconds>,
       .title = "step",
       .doc = "median over rounds of each run's median step"},
  };
}

std::vector<Quantity> of_memory_and_hardware() {
  return {
      {.csv = "peak_allocated_bytes",
       .json = "memory/peak_allocated",
       .grid = "peak_memory",
       .compared = "peak_allocated",
       .tracked = "active_memory_bytes",
       .run = "active_memory_bytes",
       .unit = Unit::bytes,
       .of_run = memory_of_run<&Memory::allocated>,
       .over = OverRuns::largest,
       .value = memory_field<&Memory::allocated>,
       .title = "peak memory",
       .doc =
           "peak memory: the most bytes that tensors hold in the timed steps; largest over rounds and ranks"},
      {.csv = "peak_vs_previous",
       .value = [](A, R r) { return r.previous.memory; },
       .doc = "peak memory divided by the peak memory of `previous`"},
      {.csv = "peak_vs_base",
       .value = [](A, R r) { return r.base.memory; },
       .doc = "peak memory divided by the peak memory of `base`"},
      {.csv = "peak_reserved_bytes",
       .json = "memory/peak_reserved",
       .run = "reserved_memory_bytes",
       .unit = Unit::bytes,
       .of_run = memory_of_run<&Memory::reserved>,
       .value = memory_field<&Memory::reserved>,
       .title = "peak reserved",
       .doc =
           "the most bytes that the caching allocator holds, largest over rounds and ranks; empty on a CPU"},
      {.csv = "process_bytes",
       .json = "memory/process",
       .run = "process_memory_bytes",
       .unit = Unit::bytes,
       .of_run = memory_of_run<&Memory::process>,
       .value = memory_field<&Memory::process>,
       .title = "process",
       .doc = "memory of the whole process: device memory by NVML, or the peak resident set on a CPU; "
              "largest over rounds and ranks"},
      part("parameters", "parameters", "parameters in a step, of rank 0; so are the next three columns"),
      part("gradients", "gradients", "gradients in a step"),
      part("optimizer_state", "optimizer state", "optimizer state in a step"),
      {.csv = "activations_bytes",
       .grid = "activations",
       .unit = Unit::bytes,
       .over = OverRuns::one,
       .value = [](A, R r) { return value_named(r.memory.parts, "activations"); },
       .title = "activations",
       .grid_title = "activations, predicted",
       .doc = "activations in a step: tensors kept for the backward"},
      {.csv = "predicted_peak_bytes",
       .json = "predicted_peak",
       .unit = Unit::bytes,
       .value = field<&Row::predicted_peak>,
       .doc = "peak memory predicted before training; empty where the plan has only bounds"},
      {.csv = "predicted_least_bytes",
       .unit = Unit::bytes,
       .value = [](A, R r) { return member_of(r.planned_memory, &PlannedMemory::least); },
       .doc = "lower bound of the predicted peak memory; equal to it where it is known"},
      {.csv = "predicted_most_bytes",
       .unit = Unit::bytes,
       .value = [](A, R r) { return member_of(r.planned_memory, &PlannedMemory::peak); },
       .doc = "upper bound of the predicted peak memory; equal to it where it is known"},
      {.csv = "predicted_reserved_bytes",
       .json = "predicted_reserved",
       .unit = Unit::bytes,
       .value = [](A, R r) { return member_of(r.planned_memory, &PlannedMemory::reserved); },
       .doc = "predicted memory that LibTorch's caching allocator takes from a GPU"},
      {.csv = "prediction_error",
       .json = "prediction_error",
       .unit = Unit::relative_error,
       .value = field<&Row::prediction_error>,
       .title = "error",
       .doc = "predicted peak / measured peak - 1"},
      {.csv = "model_flops_per_second",
       .json = "model_flops_per_second",
       .grid = "flops_per_second",
       .unit = Unit::flop_rate,
       .value = field<&Row::model_flops_per_second>,
       .title = "FLOP/s",
       .doc = "FLOP/s of all devices by the formula of mfu, for the processed tokens"},
      {.csv = "mfu",
       .json = "mfu",
       .grid = "mfu",
       .tracked = "mfu",
       .unit = Unit::share,
       .value = field<&Row::mfu>,
       .title = "MFU",
       .doc = "model FLOPs utilization, 0 to 1; docs/internals/measuring.md has the formulas"},
      {.csv = "mfu_of_dtype",
       .json = "mfu_of_dtype",
       .unit = Unit::share,
       .value = field<&Row::mfu_of_dtype>,
       .doc = "MFU against the measured peak of the type of the rung's multiplications, where the MFU "
              "divides by another peak"},
      {.csv = "mfu_sustained",
       .json = "mfu_sustained",
       .unit = Unit::share,
       .value = field<&Row::mfu_sustained>,
       .title = "MFU, sustained",
       .doc = "on a GPU: MFU against the matmul rate that the GPU holds for seconds (peak/sustained in "
              "context.json), beside the data sheet's or the best burst's in mfu"},
      {.csv = "mfu_causal",
       .json = "mfu_causal",
       .unit = Unit::share,
       .value = field<&Row::mfu_causal>,
       .title = "MFU, causal",
       .doc = "MFU with half of the attention's FLOPs"},
      {.csv = "hfu",
       .json = "hfu",
       .grid = "hfu",
       .unit = Unit::share,
       .value = field<&Row::hfu>,
       .title = "HFU",
       .doc = "hardware FLOPs utilization: executed FLOPs, padding and recomputation included"},
  };
}
}  // namespace

std::vector<Quantity> rung_quantities() {
  std::vector<Quantity> list = of_the_rung();
  for (const auto& more :
       {compared(
            "previous", &Row::previous,
            {"rung that vs_previous compares with",
             "tokens_per_second divided by the tokens_per_second of `previous`, geometric mean over rounds; "
             "for interleaved rungs, each round has the median ratio of their steps",
             "lower end of the interval of vs_previous (95 %; 98 % with `within`); empty with fewer than 3 "
             "rounds",
             "upper end of that interval",
             "faster, slower, no difference, undecided, too few rounds or the same run",
             "why `previous` solves another problem; empty: the same problem"}),
        compared("base", &Row::base,
                 {"rung that vs_base compares with: the base, or the rung that replaces it",
                  "tokens_per_second divided by the tokens_per_second of `base`, as for vs_previous",
                  "lower end of the interval of vs_base, as for vs_previous", "upper end of that interval",
                  "the same words as vs_previous_verdict",
                  "why `base` solves another problem; empty: the same problem"}),
        of_memory_and_hardware()})
    list.insert(list.end(), more.begin(), more.end());
  return list;
}
}  // namespace optrush
