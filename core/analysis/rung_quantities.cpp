// Quantities: names, speed, memory and utilization of a rung.
#include "analysis/numbers/verdict.h"
#include "analysis/quantity_parts.h"

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
      word(name, docs.row, [=](A, R r) { return (r.*with).name; }),
      number(vs, "", docs.ratio, Unit::number,
             [=](A, R r) { return member_of((r.*with).speed, &Ratio::value); })
          .in({{trackers, "speedup_" + vs}}),
      number(vs + "_low", "", docs.low, Unit::number, end(&Interval::low))
          .in({{trackers, "speedup_" + vs + "_low"}}),
      number(vs + "_high", "", docs.high, Unit::number, end(&Interval::high))
          .in({{trackers, "speedup_" + vs + "_high"}}),
      word(vs + "_verdict", docs.verdict,
           [=](A, R r) {
             const auto& speed = (r.*with).speed;
             return speed ? std::string(to_string(verdict_of(*speed).outcome)) : "";
           }),
      word(vs + "_differs", docs.differs, [=](A, R r) { return (r.*with).differs; }),
  };
}

/// A peak of memory.
template <auto Member>
Quantity peak(const char* name, const char* title, const char* doc, OverRuns over = OverRuns::median) {
  return number(name, title, doc, Unit::bytes, [](A, R row) { return row.memory.*Member; })
      .over_runs([](const RunResult& run) { return run.memory.*Member; }, over);
}

Quantity of_planned_memory(const char* name, const char* doc, auto PlannedMemory::*member) {
  return number(name, "", doc, Unit::bytes, [=](A, R r) { return member_of(r.planned_memory, member); });
}

/// Tensors of a step, by kind.
Quantity part(const std::string& name, const char* title, const char* doc) {
  return number(name + "_bytes", title, doc, Unit::bytes,
                [=](A, R r) { return value_named(r.memory.parts, name); });
}

std::vector<Quantity> of_the_rung() {
  return {
      word("experiment", "name of the experiment", [](A a, R) { return a.experiment.name; }),
      word("label", "label of the report", [](A a, R) { return a.experiment.label; }),
      word("variant", "number of the rung; 0 is the base", [](A, R r) { return std::to_string(r.variant); }),
      word("rung", "name of the rung", [](A, R r) { return r.name; }),
      word("group",
           "base, ladder, full, without, alone, grid or external (another program, beside a ladder or an "
           "ablation)",
           [](A, R r) { return r.group; }),
      word("status", "ok, oom, failed, crashed, timeout, skipped or broken",
           [](A, R r) { return std::string(to_string(r.status)); }),
      word("reason", "reason for a status other than ok", [](A, R r) { return r.reason; }),
      word("rounds", "number of rounds that ended well",
           [](A, R r) { return std::to_string(r.rounds.size()); }),
      {.csv = "devices",
       .word = [](A, R r) { return std::to_string(r.devices); },
       .title = "devices",
       .doc = "number of devices that trained the rung"},
      word("world_size", "number of processes that train one model together",
           [](A a, R r) { return std::to_string(a.spec(r).train.world_size); }),
      number("tokens_per_second", "tokens/s",
             "processed tokens per second (every position except padding) of all devices, median over rounds",
             Unit::number, field<&Row::tokens_per_second>)
          .over_runs(member<&RunResult::tokens_per_second>)
          .in({{json}, {grids}, {comparisons}, {trackers}, {runs}}),
      number("tokens_per_second_per_device", "tokens/s per device",
             "tokens_per_second divided by the number of devices", Unit::number,
             [](A, R r) {
               return r.tokens_per_second ? MaybeNumber(*r.tokens_per_second / static_cast<double>(r.devices))
                                          : std::nullopt;
             })
          .in({{json}}),
      number("trained_tokens_per_second", "trained tokens/s",
             "tokens with a loss per second of all devices, median over rounds", Unit::number,
             field<&Row::trained_tokens_per_second>)
          .over_runs(member<&RunResult::trained_tokens_per_second>)
          .in({{json}, {comparisons}, {trackers}, {runs}})
          .if_fewer(),
      number("padding", "padding", "share of padded positions, 0 to 1", Unit::share, field<&Row::padding>)
          .over_runs([](const RunResult& run) { return run.padding(); })
          .in({{json}, {comparisons}, {runs}})
          .if_fewer(),
      number("step_seconds", "step", "median over rounds of each run's median step", Unit::seconds,
             field<&Row::step_seconds>)
          .over_runs(member<&RunResult::step_seconds>)
          .in({{json}, {grids, "step_time"}, {runs}}),
  };
}

std::vector<Quantity> of_memory_and_hardware() {
  return {
      peak<&Memory::allocated>(
          "peak_allocated_bytes", "peak memory",
          "peak memory: the most bytes that tensors hold in the timed steps; largest over rounds and ranks",
          OverRuns::largest)
          .in({{json, "memory/peak_allocated"},
               {grids, "peak_memory"},
               {comparisons, "peak_allocated"},
               {trackers, "active_memory_bytes"},
               {runs, "active_memory_bytes"}}),
      number("peak_vs_previous", "", "peak memory divided by the peak memory of `previous`", Unit::number,
             [](A, R r) { return r.previous.memory; }),
      number("peak_vs_base", "", "peak memory divided by the peak memory of `base`", Unit::number,
             [](A, R r) { return r.base.memory; }),
      peak<&Memory::reserved>(
          "peak_reserved_bytes", "peak reserved",
          "the most bytes that the caching allocator holds, largest over rounds and ranks; empty on a CPU")
          .in({{json, "memory/peak_reserved"}, {runs, "reserved_memory_bytes"}}),
      peak<&Memory::process>(
          "process_bytes", "process",
          "memory of the whole process: device memory by NVML, or the peak resident set on a CPU; largest "
          "over rounds and ranks")
          .in({{json, "memory/process"}, {runs, "process_memory_bytes"}}),
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
      number("predicted_peak_bytes", "",
             "peak memory predicted before training; empty where the plan has only bounds", Unit::bytes,
             field<&Row::predicted_peak>)
          .in({{json, "predicted_peak"}}),
      of_planned_memory("predicted_least_bytes",
                        "lower bound of the predicted peak memory; equal to it where it is known",
                        &PlannedMemory::least),
      of_planned_memory("predicted_most_bytes",
                        "upper bound of the predicted peak memory; equal to it where it is known",
                        &PlannedMemory::peak),
      of_planned_memory("predicted_reserved_bytes",
                        "predicted memory that LibTorch's caching allocator takes from a GPU",
                        &PlannedMemory::reserved)
          .in({{json, "predicted_reserved"}}),
      number("prediction_error", "error", "predicted peak / measured peak - 1", Unit::relative_error,
             field<&Row::prediction_error>)
          .in({{json}}),
      number("model_flops_per_second", "FLOP/s",
             "FLOP/s of all devices by the formula of mfu, for the processed tokens", Unit::flop_rate,
             field<&Row::model_flops_per_second>)
          .in({{json}, {grids, "flops_per_second"}}),
      number("mfu", "MFU", "model FLOPs utilization, 0 to 1; docs/internals/measuring.md has the formulas",
             Unit::share, field<&Row::mfu>)
          .in({{json}, {grids}, {trackers}}),
      number("mfu_of_dtype", "",
             "MFU against the measured peak of the type of the rung's multiplications, where the MFU divides "
             "by another peak",
             Unit::share, field<&Row::mfu_of_dtype>)
          .in({{json}}),
      number("mfu_sustained", "MFU, sustained",
             "on a GPU: MFU against the matmul rate that the GPU holds for seconds (peak/sustained in "
             "context.json), beside the data sheet's or the best burst's in mfu",
             Unit::share, field<&Row::mfu_sustained>)
          .in({{json}}),
      number("mfu_causal", "MFU, causal", "MFU with half of the attention's FLOPs", Unit::share,
             field<&Row::mfu_causal>)
          .in({{json}}),
      number("hfu", "HFU", "hardware FLOPs utilization: executed FLOPs, padding and recomputation included",
             Unit::share, field<&Row::hfu>)
          .in({{json}, {grids}}),
  };
}
}  // namespace

std::vector<Quantity> rung_quantities() {
  std::vector<Quantity> list = of_the_rung();
  for (const auto& more :
       {compared("previous", &Row::previous,
                 {"rung that vs_previous compares with",
                  "tokens_per_second divided by the tokens_per_second of `previous`, geometric mean over "
                  "rounds; for interleaved rungs, each round has the median ratio of their steps",
                  "lower end of the interval of vs_previous (95 % for all intervals of the report together; "
                  "98 % with `within`); empty with fewer than 3 rounds",
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
