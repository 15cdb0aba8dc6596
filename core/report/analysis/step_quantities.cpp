// Quantities: phases and costs of a step, losses, costs of a run, published figures, and rates of operators.
#include "report/analysis/quantity_parts.h"
#include "report/numbers/format.h"

namespace optrush {
namespace {
using namespace quantity_parts;

Quantity phase(const std::string& name, const char* grid, const char* doc) {
  return {.csv = name + "_seconds",
          .grid = grid,
          .unit = Unit::seconds,
          .value = [=](A, R r) { return value_named(r.phases, name); },
          .title = name,
          .doc = doc};
}

/// The part of the traced step that a kind of work takes.
Quantity traced(const std::string& work, const char* doc) {
  return {.csv = "traced_" + work + "_seconds",
          .json = "traced/" + work,
          .unit = Unit::seconds,
          .value = [=](A, R r) { return value_named(r.traced, work); },
          .title = work,
          .doc = doc};
}

/// A cost of a step on a GPU. Without `doc` it is only in results.json.
Quantity of_a_step(const std::string& name, MaybeNumber StepCost::*cost, const char* doc,
                   Unit unit = Unit::number) {
  return {.csv = *doc == '\0' ? "" : name,
          .json = "costs/" + name,
          .unit = unit,
          .value = [=](A, R r) { return member_of(r.cost, cost); },
          .doc = doc};
}

/// For example "mine: gathers=12; mine: gathered=4096".
std::string counters_text(R row) {
  std::string text;
  for (const CounterResult& counter : row.counters)
    text +=
        (text.empty() ? "" : "; ") + counter.plugin + ": " + counter.name + "=" + exact_number(counter.value);
  return text;
}

std::optional<Deviation> loss_deviation(R row) {
  return row.verdict.compared ? std::optional(row.verdict.loss) : std::nullopt;
}

MaybeNumber joules_per_token(const RunResult& run) {
  if (!run.energy_joules || run.timed_tokens() == 0) return std::nullopt;
  return *run.energy_joules / static_cast<double>(run.timed_tokens());
}

/// A member of GpuUse: the median over the runs that know it.
Quantity gpu_use(const std::string& name, MaybeNumber (*of_run)(const RunResult&), Unit unit,
                 const char* title, const char* doc) {
  return {.csv = name, .json = name, .run = name, .unit = unit, .of_run = of_run, .title = title, .doc = doc};
}
template <auto Member>
MaybeNumber of_gpu(const RunResult& run) {
  return run.gpu ? (*run.gpu).*Member : std::nullopt;
}

MaybeNumber cost_per_million_tokens(A a, R row) {
  if (a.experiment.price_per_hour <= 0 || !row.tokens_per_second) return std::nullopt;
  return a.experiment.price_per_hour / 3600 / *row.tokens_per_second * 1e6;
}

/// A published value is above 0; none otherwise.
template <auto Member>
MaybeNumber published_field(A, R row) {
  return row.published && (*row.published).*Member > 0 ? MaybeNumber((*row.published).*Member) : std::nullopt;
}

using Pass = OperatorWork::Pass;

constexpr auto kForward = &OperatorWork::forward, kBackward = &OperatorWork::backward;

/// The work of a pass per second of that pass.
MaybeNumber pass_rate(R row, Pass OperatorWork::*pass, double Pass::*amount) {
  const MaybeNumber seconds = value_named(row.phases, pass == kForward ? "forward" : "backward");
  if (!row.work || seconds.value_or(0) <= 0) return std::nullopt;
  return (*row.work).*pass.*amount / *seconds;
}

MaybeNumber bandwidth_share(A a, R row, Pass OperatorWork::*pass) {
  const MaybeNumber bytes = pass_rate(row, pass, &Pass::bytes), limit = bandwidth_of(a.context);
  return bytes && limit ? MaybeNumber(*bytes / *limit) : std::nullopt;
}

MaybeNumber intensity(A, R row) {
  if (!row.work) return std::nullopt;
  const auto& [forward, backward] = *row.work;
  return (forward.flops + backward.flops) / (forward.bytes + backward.bytes);
}

/// The sum over what a rank sends in a step. A receive is the other end of a send and does not count.
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

/// The rate of a pass.
Quantity rate(const char* grid, const char* title, Unit unit, Pass OperatorWork::*pass,
              double Pass::*amount) {
  return {.grid = grid,
          .unit = unit,
          .value = [=](A, R r) { return pass_rate(r, pass, amount); },
          .title = title};
}
}  // namespace

std::vector<Quantity> step_quantities() {
  return {
      phase("data", "data_time",
            "time of the data phase: the median of each run's timed steps, then of its rounds; empty where "
            "it is not measured separately"),
      phase("forward", "forward_time", "time of the forward, as for data_seconds"),
      phase("backward", "backward_time", "time of the backward, as for data_seconds"),
      phase("communication", "",
            "time for which the compute stream waits for communication, as for data_seconds"),
      phase("optimizer", "optimizer_time", "time of the optimizer, as for data_seconds"),
      traced(
          "product",
          "with a trace: time of the traced step in which a matrix product runs; of work that overlaps, the "
          "first of these columns counts. All of them add up to the traced step"),
      traced("attention", "time in fused attention, or in its softmax where attention is not fused"),
      traced("loss", "time in the loss, without its products"),
      traced("elementwise", "time in all other kernels or operators"),
      traced("optimizer", "time in kernels or operators of the optimizer phase"),
      traced("communication", "time in communication while nothing else runs"),
      traced("gaps", "time in which no kernel runs on the GPU; on a CPU, in which no operator computes"),
      {.csv = "exposed_seconds",
       .json = "exposed_seconds",
       .grid = "exposed_time",
       .unit = Unit::seconds,
       .value = field<&Row::exposed_seconds>,
       .title = "exposed communication",
       .doc = "exposed communication per step: communication that no computation hides, median over ranks; "
              "empty for one rank"},
      {.csv = "sent_bytes",
       .json = "sent_bytes",
       .unit = Unit::bytes,
       .value = field<&Row::sent_bytes>,
       .doc = "bytes sent per step by the rank that sends most; empty for one rank"},
      of_a_step(
          "launches", &StepCost::launches,
          "number of kernels that a GPU starts for the operators of a step, counted in a warm-up step, or "
          "predicted if no run counted them; so are the next columns"),
      of_a_step("host_waits", &StepCost::host_waits,
                "number of times that the host waits for the device per step; empty on a CPU"),
      of_a_step("copies", &StepCost::copies,
                "number of copies between host and device per step; empty on a CPU"),
      of_a_step("copied_bytes", &StepCost::copied_bytes, "bytes of these copies", Unit::bytes),
      of_a_step("casts", &StepCost::casts, "number of copies between floating-point types per step"),
      of_a_step("cast_bytes", &StepCost::cast_bytes, "bytes that these casts read and write", Unit::bytes),
      of_a_step("casts_of_a_weight", &StepCost::casts_of_a_weight,
                "number of casts of the parameter with the most casts"),
      of_a_step("elementwise_bytes", &StepCost::elementwise_bytes,
                "bytes read and written by kernels other than matmul and attention, casts included",
                Unit::bytes),
      of_a_step("matmul_flops", &StepCost::matmul_flops, ""),
      of_a_step("attention_flops", &StepCost::attention_flops, ""),
      {.csv = "final_loss",
       .json = "final_loss",
       .grid = "loss",
       .unit = Unit::loss,
       .over = OverRuns::one,
       .value = field<&Row::final_loss>,
       .title = "final loss",
       .doc = "last training loss of the first round that ended well; of the longest one if rounds differ in "
              "length"},
      {.csv = "loss_change",
       .json = "loss_change",
       .value = field<&Row::loss_change>,
       .doc = "difference of the loss from the reference of the correctness gate, at the last step that both "
              "have"},
      {.csv = "validation_loss",
       .json = "validation_loss",
       .grid = "validation_loss",
       .compared = "validation_loss",
       .unit = Unit::loss,
       .over = OverRuns::one,
       .value =
           [](A, R r) {
             return r.validation.empty() ? MaybeNumber() : MaybeNumber(r.validation.back().loss);
           },
       .title = "validation loss",
       .doc = "validation loss after the last step of the round of final_loss"},
      {.csv = "seconds_to_loss",
       .grid = "time_to_loss",
       .unit = Unit::seconds,
       .value = [](A, R r) { return member_of(r.time_to_loss, &TimeToLoss::seconds); },
       .title = "time to loss",
       .doc = "time of training steps, warm-up included, until target_loss is reached; median over rounds; "
              "empty: not reached in every round"},
      {.csv = "steps_to_loss",
       .grid = "steps_to_loss",
       .unit = Unit::whole,
       .over = OverRuns::largest,
       .value = [](A, R r) { return member_of(r.time_to_loss, &TimeToLoss::steps); },
       .title = "steps to loss",
       .doc = "number of these steps, in the round with the most"},
      {.csv = "counters",
       .word = [](A, R r) { return counters_text(r); },
       .doc = "counters of plugins, as in `mine: gathers=12; mine: gathered=4096`; medians over rounds"},
      {.csv = "gate_worst",
       .json = "gate/worst",
       .value = [](A, R r) { return member_of(loss_deviation(r), &Deviation::worst); },
       .doc = "largest relative difference of two losses"},
      {.csv = "gate_tolerance",
       .json = "gate/tolerance",
       .value = [](A, R r) { return member_of(loss_deviation(r), &Deviation::tolerance); },
       .doc = "largest difference allowed; 0: equal bits"},
      {.csv = "gate_norm_worst",
       .value = [](A, R r) { return member_of(r.verdict.norm, &Deviation::worst); },
       .doc = "largest relative difference of two gradient norms; empty where there are none"},
      {.csv = "gate_norm_tolerance",
       .value = [](A, R r) { return member_of(r.verdict.norm, &Deviation::tolerance); },
       .doc = "largest difference of gradient norms allowed"},
      {.csv = "compile_seconds",
       .json = "compile_seconds",
       .grid = "compile_time",
       .run = "compile_seconds",
       .unit = Unit::seconds,
       .of_run = member<&RunResult::compile_seconds>,
       .over = OverRuns::largest,
       .title = "compile",
       .doc = "compile time, which is not part of any step; largest over rounds, because later rounds may "
              "read a cache"},
      {.csv = "setup_seconds",
       .json = "setup_seconds",
       .run = "setup_seconds",
       .unit = Unit::seconds,
       .of_run = member<&RunResult::setup_seconds>,
       .title = "set-up",
       .doc = "time to load and build everything before the first step"},
      {.run = "energy_joules", .of_run = member<&RunResult::energy_joules>},
      {.csv = "joules_per_token",
       .json = "joules_per_token",
       .unit = Unit::joules,
       .of_run = joules_per_token,
       .title = "energy per token",
       .doc = "energy of the timed steps by NVML, divided by their processed tokens"},
      gpu_use("gpu_watts", of_gpu<&GpuUse::watts>, Unit::watts, "power per GPU",
              "mean power of a GPU over the timed steps: energy by NVML divided by time; empty on a CPU and "
              "for interleaved rungs, so are the next columns"),
      gpu_use("sm_clock_mhz", of_gpu<&GpuUse::sm_clock_mhz>, Unit::megahertz, "SM clock",
              "mean clock of the multiprocessors over the timed steps, sampled ten times a second"),
      gpu_use("power_limit_watts", of_gpu<&GpuUse::power_limit_watts>, Unit::watts, "power limit",
              "power limit that the driver enforces"),
      gpu_use("at_power_cap", of_gpu<&GpuUse::at_power_cap>, Unit::share, "at the power cap",
              "share of the samples in which the power limit lowered the clock, 0 to 1"),
      {.csv = "cost_per_million_tokens",
       .json = "cost_per_million_tokens",
       .value = cost_per_million_tokens,
       .doc = "cost per million processed tokens, where the script sets price_per_hour"},
      {.csv = "currency",
       .word = [](A a, R r) { return cost_per_million_tokens(a, r) ? a.experiment.currency : std::string(); },
       .doc = "currency of that cost"},
      {.csv = "published_speedup",
       .json = "published/speedup",
       .value = published_field<&Published::speedup>,
       .doc = "published tokens/s relative to the rung below, from the script's `expect`"},
      {.csv = "published_memory",
       .json = "published/memory",
       .value = published_field<&Published::memory>,
       .doc = "published peak memory relative to the rung below"},
      {.csv = "published_on",
       .word = [](A, R r) { return r.published ? r.published->on : std::string(); },
       .doc = "device and problem of the published figures"},
      {.csv = "published_source",
       .word = [](A, R r) { return r.published ? r.published->source : std::string(); },
       .doc = "source of the published figures"},
      // Shown only in grids.
      rate("forward_bandwidth", "forward GB/s", Unit::gigabyte_rate, kForward, &Pass::bytes),
      rate("backward_bandwidth", "backward GB/s", Unit::gigabyte_rate, kBackward, &Pass::bytes),
      {.grid = "forward_bandwidth_share",
       .unit = Unit::share,
       .value = [](A a, R r) { return bandwidth_share(a, r, kForward); },
       .title = "forward, of the bandwidth"},
      {.grid = "backward_bandwidth_share",
       .unit = Unit::share,
       .value = [](A a, R r) { return bandwidth_share(a, r, kBackward); },
       .title = "backward, of the bandwidth"},
      rate("forward_flops", "forward FLOP/s", Unit::flop_rate, kForward, &Pass::flops),
      rate("backward_flops", "backward FLOP/s", Unit::flop_rate, kBackward, &Pass::flops),
      {.grid = "intensity", .value = intensity, .title = "FLOPs per byte"},
      {.grid = "algorithm_bandwidth",
       .unit = Unit::gigabyte_rate,
       .value = [](A, R r) { return per_exposed_second(r, sent(r, &Collective::bytes)); },
       .title = "algorithm GB/s"},
      {.grid = "bus_bandwidth",
       .unit = Unit::gigabyte_rate,
       .value = [](A, R r) { return per_exposed_second(r, sent(r, &Collective::sent_bytes)); },
       .title = "bus GB/s"},
      {.grid = "collective_time",
       .unit = Unit::seconds,
       .value = collective_time,
       .title = "time per collective"},
  };
}
}  // namespace optrush
