// Quantities: phases and costs of a step, losses, costs of a run, published figures, and rates of operators.
#include "analysis/numbers/format.h"
#include "analysis/quantity_parts.h"

namespace optrush {
namespace {
using namespace quantity_parts;

Quantity phase(const std::string& name, const char* grid, const char* doc) {
  Quantity time = number(name + "_seconds", name, doc, Unit::seconds,
                         [=](A, R r) { return value_named(r.phases, name); });
  return *grid == '\0' ? time : time.in({{grids, grid}});
}

/// The part of the traced step that a kind of work takes.
Quantity traced(const std::string& work, const char* doc) {
  return number("traced_" + work + "_seconds", work, doc, Unit::seconds,
                [=](A, R r) { return value_named(r.traced, work); })
      .in({{json, "traced/" + work}});
}

/// A cost of a step on a GPU. Without `doc` it is only in results.json.
Quantity of_a_step(const std::string& name, MaybeNumber StepCost::*cost, const char* doc,
                   Unit unit = Unit::number) {
  return number(*doc == '\0' ? "" : name, "", doc, unit, [=](A, R r) { return member_of(r.cost, cost); })
      .in({{json, "costs/" + name}});
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
template <auto Member>
Quantity gpu_use(const char* name, const char* title, Unit unit, const char* doc) {
  return number(name, title, doc, unit)
      .over_runs([](const RunResult& run) { return member_of(run.gpu, Member); })
      .in({{json}, {runs}});
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

Quantity only_in_grids(const char* name, const char* title, Unit unit, ForRow value) {
  return number("", title, "", unit, std::move(value)).in({{grids, name}});
}

/// The rate of a pass.
Quantity rate(const char* grid, const char* title, Unit unit, Pass OperatorWork::*pass,
              double Pass::*amount) {
  return only_in_grids(grid, title, unit, [=](A, R r) { return pass_rate(r, pass, amount); });
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
      traced("product",
             "with a trace: time of the traced step in which a matrix product runs; of work that overlaps, "
             "the first of these columns counts. All of them add up to the traced step"),
      traced("attention", "time in fused attention, or in its softmax where attention is not fused"),
      traced("loss", "time in the loss, without its products"),
      traced("elementwise", "time in all other kernels or operators"),
      traced("optimizer", "time in kernels or operators of the optimizer phase"),
      traced("communication", "time in communication while nothing else runs"),
      traced("gaps", "time in which no kernel runs on the GPU; on a CPU, in which no operator computes"),
      number("exposed_seconds", "exposed communication",
             "exposed communication per step: communication that no computation hides, median over ranks; "
             "empty for one rank",
             Unit::seconds, field<&Row::exposed_seconds>)
          .in({{json}, {grids, "exposed_time"}}),
      number("sent_bytes", "", "bytes sent per step by the rank that sends most; empty for one rank",
             Unit::bytes, field<&Row::sent_bytes>)
          .in({{json}}),
      of_a_step("launches", &StepCost::launches,
                "number of kernels that a GPU starts for the operators of a step, counted in a warm-up step, "
                "or predicted if no run counted them; so are the next columns"),
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
      number("final_loss", "training loss",
             "last training loss of the first round that ended well; of the longest one if rounds differ in "
             "length",
             Unit::loss, field<&Row::final_loss>)
          .over_runs(nullptr, OverRuns::one)
          .in({{json}, {grids, "loss"}}),
      number("loss_change", "",
             "difference of the loss from the reference of the correctness gate, at the last step that both "
             "have",
             Unit::number, field<&Row::loss_change>)
          .in({{json}}),
      number(
          "validation_loss", "validation loss",
          "validation loss after the last step of the round of final_loss", Unit::loss,
          [](A, R r) { return r.validation.empty() ? MaybeNumber() : MaybeNumber(r.validation.back().loss); })
          .over_runs(nullptr, OverRuns::one)
          .in({{json}, {grids}, {comparisons}}),
      number("seconds_to_loss", "time to loss",
             "time of training steps, warm-up included, until target_loss is reached; median over rounds; "
             "empty: not reached in every round",
             Unit::seconds, [](A, R r) { return member_of(r.time_to_loss, &TimeToLoss::seconds); })
          .in({{grids, "time_to_loss"}}),
      number("steps_to_loss", "steps to loss", "number of these steps, in the round with the most",
             Unit::whole, [](A, R r) { return member_of(r.time_to_loss, &TimeToLoss::steps); })
          .over_runs(nullptr, OverRuns::largest)
          .in({{grids}}),
      word("counters",
           "counters of plugins, as in `mine: gathers=12; mine: gathered=4096`; medians over rounds",
           [](A, R r) { return counters_text(r); }),
      number("gate_worst", "", "largest relative difference of two losses", Unit::number,
             [](A, R r) { return member_of(loss_deviation(r), &Deviation::worst); })
          .in({{json, "gate/worst"}}),
      number("gate_tolerance", "", "largest difference allowed; 0: equal bits", Unit::number,
             [](A, R r) { return member_of(loss_deviation(r), &Deviation::tolerance); })
          .in({{json, "gate/tolerance"}}),
      number("gate_norm_worst", "",
             "largest relative difference of two gradient norms; empty where there are none", Unit::number,
             [](A, R r) { return member_of(r.verdict.norm, &Deviation::worst); }),
      number("gate_norm_tolerance", "", "largest difference of gradient norms allowed", Unit::number,
             [](A, R r) { return member_of(r.verdict.norm, &Deviation::tolerance); }),
      number("compile_seconds", "compile",
             "compile time, which is not part of any step; largest over rounds, because later rounds may "
             "read a cache",
             Unit::seconds)
          .over_runs(member<&RunResult::compile_seconds>, OverRuns::largest)
          .in({{json}, {grids, "compile_time"}, {runs}}),
      number("setup_seconds", "set-up", "time to load and build everything before the first step",
             Unit::seconds)
          .over_runs(member<&RunResult::setup_seconds>)
          .in({{json}, {runs}}),
      number("", "", "", Unit::number)
          .over_runs(member<&RunResult::energy_joules>)
          .in({{runs, "energy_joules"}}),
      number("joules_per_token", "energy per token",
             "energy of the timed steps by NVML, divided by their processed tokens", Unit::joules)
          .over_runs(joules_per_token)
          .in({{json}}),
      gpu_use<&GpuUse::watts>(
          "gpu_watts", "power per GPU", Unit::watts,
          "mean power of a GPU over the timed steps: energy by NVML divided by time; empty on a CPU and "
          "for interleaved rungs, so are the next columns"),
      gpu_use<&GpuUse::sm_clock_mhz>(
          "sm_clock_mhz", "SM clock", Unit::megahertz,
          "mean clock of the multiprocessors over the timed steps, sampled ten times a second"),
      gpu_use<&GpuUse::power_limit_watts>("power_limit_watts", "power limit", Unit::watts,
                                          "power limit that the driver enforces"),
      gpu_use<&GpuUse::at_power_cap>(
          "at_power_cap", "at the power cap", Unit::share,
          "share of the samples in which the power limit lowered the clock, 0 to 1"),
      number("cost_per_million_tokens", "",
             "cost per million processed tokens, where the script sets price_per_hour", Unit::number,
             cost_per_million_tokens)
          .in({{json}}),
      word("currency", "currency of that cost",
           [](A a, R r) { return cost_per_million_tokens(a, r) ? a.experiment.currency : std::string(); }),
      number("published_speedup", "",
             "published tokens/s relative to the rung below, from the script's `expect`", Unit::number,
             published_field<&Published::speedup>)
          .in({{json, "published/speedup"}}),
      number("published_memory", "", "published peak memory relative to the rung below", Unit::number,
             published_field<&Published::memory>)
          .in({{json, "published/memory"}}),
      word("published_on", "device and problem of the published figures",
           [](A, R r) { return r.published ? r.published->on : std::string(); }),
      word("published_source", "source of the published figures",
           [](A, R r) { return r.published ? r.published->source : std::string(); }),
      rate("forward_bandwidth", "forward GB/s", Unit::gigabyte_rate, kForward, &Pass::bytes),
      rate("backward_bandwidth", "backward GB/s", Unit::gigabyte_rate, kBackward, &Pass::bytes),
      only_in_grids("forward_bandwidth_share", "forward, of the bandwidth", Unit::share,
                    [](A a, R r) { return bandwidth_share(a, r, kForward); }),
      only_in_grids("backward_bandwidth_share", "backward, of the bandwidth", Unit::share,
                    [](A a, R r) { return bandwidth_share(a, r, kBackward); }),
      rate("forward_flops", "forward FLOP/s", Unit::flop_rate, kForward, &Pass::flops),
      rate("backward_flops", "backward FLOP/s", Unit::flop_rate, kBackward, &Pass::flops),
      only_in_grids("intensity", "FLOPs per byte", Unit::number, intensity),
      only_in_grids("algorithm_bandwidth", "algorithm GB/s", Unit::gigabyte_rate,
                    [](A, R r) { return per_exposed_second(r, sent(r, &Collective::bytes)); }),
      only_in_grids("bus_bandwidth", "bus GB/s", Unit::gigabyte_rate,
                    [](A, R r) { return per_exposed_second(r, sent(r, &Collective::sent_bytes)); }),
      only_in_grids("collective_time", "time per collective", Unit::seconds, collective_time),
  };
}
}  // namespace optrush
