#include "report/analysis/quantities.h"

#include "report/numbers/format.h"
#include "report/numbers/verdict.h"

namespace optrush {
namespace {
using MaybeNumber = std::optional<double>;
using A = const Analysis&;
using R = const Row&;

template <class Pairs>
MaybeNumber value_named(const Pairs& pairs, std::string_view wanted) {
  for (const auto& [name, value] : pairs)
    if (name == wanted) return value;
  return std::nullopt;
}

MaybeNumber ratio_value(const Comparison& c) { return c.speed ? MaybeNumber(c.speed->value) : std::nullopt; }
MaybeNumber interval_low(const Comparison& c) {
  return c.speed && c.speed->interval ? MaybeNumber(c.speed->interval->low) : std::nullopt;
}
MaybeNumber interval_high(const Comparison& c) {
  return c.speed && c.speed->interval ? MaybeNumber(c.speed->interval->high) : std::nullopt;
}
std::string verdict_word(const Comparison& c) {
  return c.speed ? std::string(to_string(verdict_of(*c.speed).outcome)) : "";
}

template <auto Member>
MaybeNumber field(A, R row) {
  return row.*Member;
}
template <auto Member>
MaybeNumber memory_field(A, R row) {
  return row.memory.*Member;
}
template <auto Member>
MaybeNumber planned_field(A, R row) {
  return row.planned_memory ? MaybeNumber((*row.planned_memory).*Member) : std::nullopt;
}
template <auto Member>
MaybeNumber cost_field(A, R row) {
  return row.cost ? (*row.cost).*Member : std::nullopt;
}
/// What is published is above 0.
template <auto Member>
MaybeNumber published_field(A, R row) {
  return row.published && (*row.published).*Member > 0 ? MaybeNumber((*row.published).*Member) : std::nullopt;
}

/// "mine: gathers=12; mine: gathered=4096"
std::string counters_text(R row) {
  std::string text;
  for (const CounterResult& counter : row.counters)
    text +=
        (text.empty() ? "" : "; ") + counter.plugin + ": " + counter.name + "=" + exact_number(counter.value);
  return text;
}

using Pass = OperatorWork::Pass;
constexpr auto kForward = &OperatorWork::forward, kBackward = &OperatorWork::backward;

/// Per second of a pass: of what a step has to do in it.
MaybeNumber pass_rate(R row, Pass OperatorWork::*pass, double Pass::*amount) {
  const MaybeNumber seconds = value_named(row.phases, pass == kForward ? "forward" : "backward");
  if (!row.work || seconds.value_or(0) <= 0) return std::nullopt;
  return (*row.work).*pass.*amount / *seconds;
}

MaybeNumber bandwidth_share(A a, R row, Pass OperatorWork::*pass) {
  const auto limit = a.context.find("bandwidth_bytes_per_second");
  const MaybeNumber bytes = pass_rate(row, pass, &Pass::bytes);
  if (!bytes || limit == a.context.end() || !limit->is_number()) return std::nullopt;
  return *bytes / limit->get<double>();
}

MaybeNumber intensity(A, R row) {
  if (!row.work) return std::nullopt;
  const auto& [forward, backward] = *row.work;
  return (forward.flops + backward.flops) / (forward.bytes + backward.bytes);
}

/// Of what a rank sends in a step; a receive is the other end of a send.
double sent(R row, MaybeNumber Collective::*amount) {
  double sum = 0;
  for (const Collective& collective : row.collectives)
    if (collective.sent_bytes.value_or(0) > 0) sum += (collective.*amount).value_or(0);
  return sum;
}

MaybeNumber per_exposed_second(R row, double amount) {
  if (amount == 0 || row.exposed_seconds.value_or(0) <= 0) return std::nullopt;
  return amount / *row.exposed_seconds;
}

MaybeNumber collective_time(A, R row) {
  const MaybeNumber rate = per_exposed_second(row, sent(row, &Collective::calls));
  return rate ? MaybeNumber(1 / *rate) : std::nullopt;
}
}  // namespace

// One entry is all that a new number takes; tests/unit/report_golden_test.cpp writes the columns' docs from
// it.
const std::vector<Quantity>& quantities() {
  static const std::vector<Quantity> all = {
      {.csv = "experiment",
       .word = [](A a, R) { return a.experiment.name; },
       .doc = "name of the experiment"},
      {.csv = "label", .word = [](A a, R) { return a.experiment.label; }, .doc = "of the report"},
      {.csv = "variant",
       .word = [](A, R r) { return std::to_string(r.variant); },
       .doc = "line of the report; 0 is the base"},
      {.csv = "rung", .word = [](A, R r) { return r.name; }, .doc = "its name"},
      {.csv = "group",
       .word = [](A, R r) { return r.group; },
       .doc = "base, ladder, full, without, alone, grid or external (another program, beside a ladder or an "
              "ablation)"},
      {.csv = "status",
       .word = [](A, R r) { return std::string(to_string(r.status)); },
       .doc = "ok, oom, failed, crashed, timeout, skipped or broken"},
      {.csv = "reason", .word = [](A, R r) { return r.reason; }, .doc = "of a status that is not ok"},
      {.csv = "rounds",
       .word = [](A, R r) { return std::to_string(r.rounds.size()); },
       .doc = "that ended well"},
      {.csv = "devices",
       .word = [](A, R r) { return std::to_string(r.devices); },
       .title = "devices",
       .doc = "that it trained on"},
      {.csv = "world_size",
       .word = [](A a, R r) { return std::to_string(a.spec(r).train.world_size); },
       .doc = "processes that train one model together"},
      {.csv = "tokens_per_second",
       .json = "tokens_per_second",
       .grid = "tokens_per_second",
       .compared = "tokens_per_second",
       .tracked = "tokens_per_second",
       .value = field<&Row::tokens_per_second>,
       .title = "tokens/s",
       .doc = "tokens processed (every position but padding), of all devices, median over rounds"},
      {.csv = "tokens_per_second_per_device",
       .json = "tokens_per_second_per_device",
       .value = field<&Row::tokens_per_second_per_device>,
       .title = "tokens/s a device",
       .doc = "the same for one device"},
      {.csv = "trained_tokens_per_second",
       .json = "trained_tokens_per_second",
       .compared = "trained_tokens_per_second",
       .tracked = "trained_tokens_per_second",
       .value = field<&Row::trained_tokens_per_second>,
       .title = "trained tokens/s",
       .of_fewer = true,
       .doc = "tokens that a loss is taken on, of all devices, median over rounds"},
      {.csv = "padding",
       .json = "padding",
       .compared = "padding",
       .unit = Unit::share,
       .value = field<&Row::padding>,
       .title = "padding",
       .of_fewer = true,
       .doc = "its part of all positions, 0 to 1"},
      {.csv = "step_seconds",
       .json = "step_seconds",
       .grid = "step_time",
       .unit = Unit::seconds,
       .value = field<&Row::step_seconds>,
       .title = "step",
       .doc = "median over rounds of each run's median step"},
      {.csv = "previous",
       .word = [](A, R r) { return r.previous.name; },
       .doc = "rung that it is compared with"},
      {.csv = "vs_previous",
       .tracked = "speedup_vs_previous",
       .value = [](A, R r) { return ratio_value(r.previous); },
       .doc = "tokens_per_second over that rung's, geometric mean over rounds"},
      {.csv = "vs_previous_low",
       .tracked = "speedup_vs_previous_low",
       .value = [](A, R r) { return interval_low(r.previous); },
       .doc = "lower end of the 95 % interval; empty below 3 rounds"},
      {.csv = "vs_previous_high",
       .tracked = "speedup_vs_previous_high",
       .value = [](A, R r) { return interval_high(r.previous); },
       .doc = "its upper end"},
      {.csv = "vs_previous_verdict",
       .word = [](A, R r) { return verdict_word(r.previous); },
       .doc = "faster, slower, no difference, undecided, too few rounds or the same run"},
      {.csv = "vs_previous_differs",
       .word = [](A, R r) { return r.previous.differs; },
       .doc = "why that rung solves another problem; empty: the same"},
      {.csv = "base", .word = [](A, R r) { return r.base.name; }, .doc = "rung that stands for the base"},
      {.csv = "vs_base",
       .tracked = "speedup_vs_base",
       .value = [](A, R r) { return ratio_value(r.base); },
       .doc = "tokens_per_second over the base's"},
      {.csv = "vs_base_low",
       .tracked = "speedup_vs_base_low",
       .value = [](A, R r) { return interval_low(r.base); },
       .doc = "lower end of the 95 % interval"},
      {.csv = "vs_base_high",
       .tracked = "speedup_vs_base_high",
       .value = [](A, R r) { return interval_high(r.base); },
       .doc = "its upper end"},
      {.csv = "vs_base_verdict", .word = [](A, R r) { return verdict_word(r.base); }, .doc = "as above"},
      {.csv = "vs_base_differs",
       .word = [](A, R r) { return r.base.differs; },
       .doc = "why the base solves another problem; empty: the same"},
      {.csv = "peak_allocated_bytes",
       .json = "memory/peak_allocated",
       .grid = "peak_memory",
       .compared = "peak_allocated",
       .tracked = "active_memory_bytes",
       .unit = Unit::bytes,
       .value = memory_field<&Memory::allocated>,
       .title = "peak active",
       .grid_title = "peak active memory",
       .doc = "peak active memory over the timed steps: what tensors hold"},
      {.csv = "peak_vs_previous",
       .value = [](A, R r) { return r.previous.memory; },
       .doc = "that over the peak of `previous`"},
      {.csv = "peak_vs_base",
       .value = [](A, R r) { return r.base.memory; },
       .doc = "that over the peak of `base`"},
      {.csv = "peak_reserved_bytes",
       .json = "memory/peak_reserved",
       .unit = Unit::bytes,
       .value = memory_field<&Memory::reserved>,
       .title = "peak reserved",
       .doc = "peak of what the caching allocator holds; empty on a CPU"},
      {.csv = "process_bytes",
       .json = "memory/process",
       .unit = Unit::bytes,
       .value = memory_field<&Memory::process>,
       .title = "process",
       .doc = "of the whole process: the device's memory by NVML, or the resident set on a CPU"},
      {.csv = "parameters_bytes",
       .unit = Unit::bytes,
       .value = [](A, R r) { return value_named(r.memory.parts, "parameters"); },
       .title = "parameters",
       .doc = "tensors of a step, by what they are for"},
      {.csv = "gradients_bytes",
       .unit = Unit::bytes,
       .value = [](A, R r) { return value_named(r.memory.parts, "gradients"); },
       .title = "gradients",
       .doc = "the same"},
      {.csv = "optimizer_state_bytes",
       .unit = Unit::bytes,
       .value = [](A, R r) { return value_named(r.memory.parts, "optimizer_state"); },
       .title = "optimizer state",
       .doc = "the same"},
      {.csv = "activations_bytes",
       .grid = "activations",
       .unit = Unit::bytes,
       .value = [](A, R r) { return value_named(r.memory.parts, "activations"); },
       .title = "activations",
       .grid_title = "activations, predicted",
       .doc = "the same: what the backward keeps"},
      {.csv = "predicted_peak_bytes",
       .json = "predicted_peak",
       .unit = Unit::bytes,
       .value = field<&Row::predicted_peak>,
       .doc = "memory in use as the plan predicts it, before anything is trained; empty where it has bounds "
              "alone"},
      {.csv = "predicted_least_bytes",
       .unit = Unit::bytes,
       .value = planned_field<&PlannedMemory::least>,
       .doc = "memory in use at least; the predicted peak where the plan predicts it"},
      {.csv = "predicted_most_bytes",
       .unit = Unit::bytes,
       .value = planned_field<&PlannedMemory::peak>,
       .doc = "memory in use at most; the predicted peak where the plan predicts it"},
      {.csv = "predicted_reserved_bytes",
       .json = "predicted_reserved",
       .unit = Unit::bytes,
       .value = planned_field<&PlannedMemory::reserved>,
       .doc = "what LibTorch's caching allocator takes from a GPU for it"},
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
       .doc = "by the formula of mfu, of the tokens that are processed, all devices"},
      {.csv = "mfu",
       .json = "mfu",
       .grid = "mfu",
       .tracked = "mfu",
       .unit = Unit::share,
       .value = field<&Row::mfu>,
       .title = "MFU",
       .doc = "0 to 1; docs/internals/measuring.md has the formulas"},
      {.csv = "mfu_of_dtype",
       .json = "mfu_of_dtype",
       .unit = Unit::share,
       .value = field<&Row::mfu_of_dtype>,
       .doc = "over the measured peak of the type that it multiplies in, where the MFU divides by another"},
      {.csv = "mfu_causal",
       .json = "mfu_causal",
       .unit = Unit::share,
       .value = field<&Row::mfu_causal>,
       .title = "MFU, causal",
       .doc = "with half of the attention"},
      {.csv = "hfu",
       .json = "hfu",
       .grid = "hfu",
       .unit = Unit::share,
       .value = field<&Row::hfu>,
       .title = "HFU",
       .doc = "of the FLOPs that were executed, those of padding and recomputation among them"},
      {.csv = "data_seconds",
       .grid = "data_time",
       .unit = Unit::seconds,
       .value = [](A, R r) { return value_named(r.phases, "data"); },
       .title = "data",
       .doc = "phase of the step, median; empty where it cannot be told apart"},
      {.csv = "forward_seconds",
       .grid = "forward_time",
       .unit = Unit::seconds,
       .value = [](A, R r) { return value_named(r.phases, "forward"); },
       .title = "forward",
       .doc = "the same"},
      {.csv = "backward_seconds",
       .grid = "backward_time",
       .unit = Unit::seconds,
       .value = [](A, R r) { return value_named(r.phases, "backward"); },
       .title = "backward",
       .doc = "the same"},
      {.csv = "communication_seconds",
       .unit = Unit::seconds,
       .value = [](A, R r) { return value_named(r.phases, "communication"); },
       .title = "communication",
       .doc = "the same: what the compute stream waits for"},
      {.csv = "optimizer_seconds",
       .grid = "optimizer_time",
       .unit = Unit::seconds,
       .value = [](A, R r) { return value_named(r.phases, "optimizer"); },
       .title = "optimizer",
       .doc = "the same"},
      {.csv = "exposed_seconds",
       .json = "exposed_seconds",
       .grid = "exposed_time",
       .unit = Unit::seconds,
       .value = field<&Row::exposed_seconds>,
       .title = "exposed communication",
       .doc = "communication in a step that nothing hides, median over ranks; empty for one rank"},
      {.csv = "sent_bytes",
       .json = "sent_bytes",
       .unit = Unit::bytes,
       .value = field<&Row::sent_bytes>,
       .doc = "in a step, by the rank that sends most; empty for one rank"},
      {.csv = "launches",
       .json = "costs/launches",
       .value = cost_field<&StepCost::launches>,
       .doc = "kernels that a GPU starts for a step's operators, as the host counts them in a warm-up step"},
      {.csv = "host_waits",
       .json = "costs/host_waits",
       .value = cost_field<&StepCost::host_waits>,
       .doc = "how often the host waits for the device in a step; empty on a CPU"},
      {.csv = "copies",
       .json = "costs/copies",
       .value = cost_field<&StepCost::copies>,
       .doc = "between host and device; empty on a CPU"},
      {.csv = "copied_bytes",
       .json = "costs/copied_bytes",
       .unit = Unit::bytes,
       .value = cost_field<&StepCost::copied_bytes>,
       .doc = "of these"},
      {.csv = "casts",
       .json = "costs/casts",
       .value = cost_field<&StepCost::casts>,
       .doc = "copies between floating-point types"},
      {.csv = "cast_bytes",
       .json = "costs/cast_bytes",
       .unit = Unit::bytes,
       .value = cost_field<&StepCost::cast_bytes>,
       .doc = "that they read and write"},
      {.csv = "casts_of_a_weight",
       .json = "costs/casts_of_a_weight",
       .value = cost_field<&StepCost::casts_of_a_weight>,
       .doc = "how often the parameter that is cast most is cast"},
      {.csv = "elementwise_bytes",
       .json = "costs/elementwise_bytes",
       .unit = Unit::bytes,
       .value = cost_field<&StepCost::elementwise_bytes>,
       .doc = "read and written by kernels that are neither matmul nor attention, casts among them"},
      {.json = "costs/matmul_flops", .value = cost_field<&StepCost::matmul_flops>},
      {.json = "costs/attention_flops", .value = cost_field<&StepCost::attention_flops>},
      {.csv = "final_loss",
       .json = "final_loss",
       .grid = "loss",
       .unit = Unit::loss,
       .value = field<&Row::final_loss>,
       .title = "final loss",
       .doc = "of the first round that ended well"},
      {.csv = "loss_change",
       .json = "loss_change",
       .value = field<&Row::loss_change>,
       .doc = "to what the correctness gate compares with, at the last step that both have"},
      {.csv = "validation_loss",
       .json = "validation_loss",
       .grid = "validation_loss",
       .compared = "validation_loss",
       .unit = Unit::loss,
       .value =
           [](A, R r) {
             return r.validation.empty() ? MaybeNumber() : MaybeNumber(r.validation.back().loss);
           },
       .title = "validation loss",
       .doc = "after the last step, on data that training never reads; of the first round"},
      {.csv = "seconds_to_loss",
       .grid = "time_to_loss",
       .unit = Unit::seconds,
       .value = [](A, R r) { return r.time_to_loss ? r.time_to_loss->seconds : MaybeNumber(); },
       .title = "time to loss",
       .doc = "of training steps, warm-up included, until the experiment's target_loss; median over rounds; "
              "empty: not reached in all of them"},
      {.csv = "steps_to_loss",
       .grid = "steps_to_loss",
       .unit = Unit::whole,
       .value = [](A, R r) { return r.time_to_loss ? MaybeNumber(r.time_to_loss->steps) : MaybeNumber(); },
       .title = "steps to loss",
       .doc = "their number, in the round that took most"},
      {.csv = "counters",
       .word = [](A, R r) { return counters_text(r); },
       .doc =
           "numbers that plugins tell, as in `mine: gathers=12; mine: gathered=4096`; medians over rounds"},
      {.csv = "gate_worst",
       .json = "gate/worst",
       .value = [](A, R r) { return r.verdict.compared ? MaybeNumber(r.verdict.loss.worst) : MaybeNumber(); },
       .doc = "largest relative difference of two losses"},
      {.csv = "gate_tolerance",
       .json = "gate/tolerance",
       .value =
           [](A, R r) { return r.verdict.compared ? MaybeNumber(r.verdict.loss.tolerance) : MaybeNumber(); },
       .doc = "that is allowed; 0: equal bits"},
      {.csv = "gate_norm_worst",
       .value = [](A, R r) { return r.verdict.norm ? MaybeNumber(r.verdict.norm->worst) : MaybeNumber(); },
       .doc = "largest relative difference of two gradient norms; empty where they are not known"},
      {.csv = "gate_norm_tolerance",
       .value = [](A,
                   R r) { return r.verdict.norm ? MaybeNumber(r.verdict.norm->tolerance) : MaybeNumber(); },
       .doc = "that is allowed"},
      {.csv = "compile_seconds",
       .json = "compile_seconds",
       .grid = "compile_time",
       .unit = Unit::seconds,
       .value = field<&Row::compile_seconds>,
       .title = "compile",
       .doc = "not part of any step; of the round where it took longest, as later ones may read a cache"},
      {.csv = "setup_seconds",
       .json = "setup_seconds",
       .unit = Unit::seconds,
       .value = field<&Row::setup_seconds>,
       .title = "set-up",
       .doc = "loading and building"},
      {.csv = "joules_per_token",
       .json = "joules_per_token",
       .unit = Unit::joules,
       .value = field<&Row::joules_per_token>,
       .title = "energy a token",
       .doc = "by NVML's counter over the timed steps, over the tokens that they processed"},
      {.csv = "cost_per_million_tokens",
       .json = "cost_per_million_tokens",
       .value = field<&Row::cost_per_million_tokens>,
       .doc = "of tokens processed, where the script gives price_per_hour"},
      {.csv = "currency",
       .word = [](A a, R r) { return r.cost_per_million_tokens ? a.experiment.currency : std::string(); },
       .doc = "of the cost"},
      {.csv = "published_speedup",
       .json = "published/speedup",
       .value = published_field<&Published::speedup>,
       .doc = "tokens/s over the rung below that others published; the script's `expect`"},
      {.csv = "published_memory",
       .json = "published/memory",
       .value = published_field<&Published::memory>,
       .doc = "peak memory over the rung below, likewise"},
      {.csv = "published_on",
       .word = [](A, R r) { return r.published ? r.published->on : std::string(); },
       .doc = "on which device and problem"},
      {.csv = "published_source",
       .word = [](A, R r) { return r.published ? r.published->source : std::string(); },
       .doc = "by whom"},
      {.grid = "forward_bandwidth",
       .unit = Unit::gigabyte_rate,
       .value = [](A, R r) { return pass_rate(r, kForward, &Pass::bytes); },
       .title = "forward GB/s"},
      {.grid = "backward_bandwidth",
       .unit = Unit::gigabyte_rate,
       .value = [](A, R r) { return pass_rate(r, kBackward, &Pass::bytes); },
       .title = "backward GB/s"},
      {.grid = "forward_bandwidth_share",
       .unit = Unit::share,
       .value = [](A a, R r) { return bandwidth_share(a, r, kForward); },
       .title = "forward, of the bandwidth"},
      {.grid = "backward_bandwidth_share",
       .unit = Unit::share,
       .value = [](A a, R r) { return bandwidth_share(a, r, kBackward); },
       .title = "backward, of the bandwidth"},
      {.grid = "forward_flops",
       .unit = Unit::flop_rate,
       .value = [](A, R r) { return pass_rate(r, kForward, &Pass::flops); },
       .title = "forward FLOP/s"},
      {.grid = "backward_flops",
       .unit = Unit::flop_rate,
       .value = [](A, R r) { return pass_rate(r, kBackward, &Pass::flops); },
       .title = "backward FLOP/s"},
      {.grid = "intensity", .value = intensity, .title = "FLOPs a byte"},
      {.grid = "algorithm_bandwidth",
       .unit = Unit::gigabyte_rate,
       .value = [](A, R r) { return per_exposed_second(r, sent(r, &Collective::bytes)); },
       .title = "algorithm GB/s"},
      {.grid = "bus_bandwidth",
       .unit = Unit::gigabyte_rate,
       .value = [](A, R r) { return per_exposed_second(r, sent(r, &Collective::sent_bytes)); },
       .title = "bus GB/s"},
      {.grid = "collective_time", .unit = Unit::seconds, .value = collective_time, .title = "a collective"},
  };
  return all;
}
}  // namespace optrush
