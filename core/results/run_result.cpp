#include "results/run_result.h"

#include <algorithm>
#include <cmath>

#include "optrush/error.h"
#include "spec/value.h"

namespace optrush {
double total_seconds(const Phases& phases) {
  double sum = 0;
  for (const auto& [name, seconds] : phases) sum += seconds.value_or(0);
  return sum;
}

void complete(StepResult& step) {
  // A program without masked tokens need not report `tokens`.
  if (step.tokens == -1) step.tokens = step.trained;
  if (step.positions == -1) step.positions = step.tokens;
  constexpr int64_t kMost = 1'000'000'000'000;  // keeps a sum over all steps within int64
  for (const int64_t count : {step.trained, step.tokens, step.positions})
    if (count < 0 || count > kMost)
      throw Error(ErrorCode::invalid_file, "a step of " + std::to_string(count) + " tokens");
  if (step.tokens > step.positions)
    throw Error(ErrorCode::invalid_file, "a step processes " + std::to_string(step.tokens) + " tokens in " +
                                             std::to_string(step.positions) + " positions");
  constexpr double kLongest = 1e9;  // keeps the sum finite
  if (step.seconds < 0 || step.seconds > kLongest)
    throw Error(ErrorCode::invalid_file, "field 'seconds' of a step is " + shown(Json(step.seconds)) +
                                             ", but must be between 0 and 1e9");
}

Record<StepResult> record_of(const StepResult*) {
  using S = StepResult;
  return Record<S>("a step")
      .field("step", &S::step, {.required = true})
      .field("timed", &S::timed,
             "false: warm-up, or the first step of a turn of several steps between interleaved runs",
             {.required = true})
      .field("loss", &S::loss,
             "mean next-token loss of the global batch; null: not finite. A program that does not report "
             "it leaves it out in every step",
             {.nullable = true})
      .field("grad_norm", &S::grad_norm,
             "L2 norm of the whole gradient, before clipping; null: not finite, and the update was "
             "skipped. A program that does not report it leaves it out in every step",
             {.nullable = true})
      .field("learning_rate", &S::learning_rate, "learning rate of the step's update; optional",
             {.left_out = true})
      .field("tokens", &S::trained, "trained tokens (tokens with a loss) of all ranks", {.required = true})
      .field("processed_tokens", &S::tokens,
             "processed tokens (all positions except padding, including prompts) of all ranks; absent: "
             "equal to tokens")
      .field("positions", &S::positions,
             "positions of all sequences, including padding, of all ranks; absent: equal to "
             "processed_tokens")
      .field("attention_pairs", &S::attention_pairs,
             "pairs of positions that attention relates, of all ranks, mean over the layers: the squared "
             "document lengths without a sliding window",
             {.left_out = true})
      .field("seconds", &S::seconds, {.required = true})
      .field("phases", &S::phases,
             "seconds of data, forward, backward, communication, optimizer; null: not measured "
             "separately. A program need not report them")
      .then(&complete);
}

Record<Memory> record_of(const Memory*) {
  using M = Memory;
  return Record<M>("memory")
      .field("peak_allocated", &M::allocated,
             "peak of active memory in the timed steps: bytes of live tensors; on a GPU, bytes of blocks "
             "in use, including blocks that another stream still reads",
             {.nullable = true, .integer = true})
      .field("peak_reserved", &M::reserved,
             "peak of the bytes that the caching allocator has reserved; null on a CPU",
             {.nullable = true, .integer = true})
      .field("process", &M::process, "device memory of the process by NVML; on a CPU, the peak resident set",
             {.nullable = true, .integer = true})
      .field("parts", &M::parts,
             "bytes of a step's tensors: parameters, gradients, optimizer_state, activations (saved for "
             "the backward), total; they do not necessarily exist at the same time",
             {.left_out = true, .integer = true});
}

Record<ValidationPoint> record_of(const ValidationPoint*) {
  using V = ValidationPoint;
  return Record<V>("a validation")
      .field("step", &V::step, "next training step at the time of the validation", {.required = true})
      .field("loss", &V::loss, "mean next-token loss of the validation sequences, all ranks",
             {.required = true})
      .field("seconds", &V::seconds, "duration of the validation", {.left_out = true});
}

Record<SavedPoint> record_of(const SavedPoint*) {
  using P = SavedPoint;
  return Record<P>("a saved state")
      .field("step", &P::step, "next training step", {.required = true})
      .field("seconds", &P::seconds, "duration of saving", {.required = true})
      .field("bytes", &P::bytes, "size of the files of all ranks", {.required = true, .integer = true});
}

Record<SampledText> record_of(const SampledText*) {
  using S = SampledText;
  return Record<S>("a sample")
      .field("prompt", &S::prompt, {.required = true})
      .field("text", &S::text, {.required = true});
}

Record<BestState> record_of(const BestState*) {
  using B = BestState;
  return Record<B>("the best state")
      .field("step", &B::step, "last training step before the state", {.required = true})
      .field("loss", &B::loss, {.required = true});
}

Record<GpuUse> record_of(const GpuUse*) {
  using G = GpuUse;
  return Record<G>("a GPU in the timed steps")
      .field("watts", &G::watts, "energy divided by time", {.nullable = true})
      .field("sm_clock_mhz", &G::sm_clock_mhz, "mean of samples", {.nullable = true})
      .field("power_limit_watts", &G::power_limit_watts, {.nullable = true})
      .field("at_power_cap", &G::at_power_cap,
             "share of the samples in which the power limit lowered the clock, 0 to 1", {.nullable = true});
}

Record<TokensPerStep> record_of(const TokensPerStep*) {
  using T = TokensPerStep;
  return Record<T>("the tokens of a step")
      .field("processed", &T::processed, {.left_out = true})
      .field("trained", &T::trained, {.left_out = true})
      .field("padding", &T::padding, "fraction of padding in all positions, 0 to 1", {.left_out = true});
}

Record<RankResult> record_of(const RankResult*) {
  using R = RankResult;
  return Record<R>("a rank", "Seconds are medians over timed steps. Sent bytes are counted in one step.")
      .field("rank", &R::rank, {.required = true, .schema = {{"minimum", 0}}})
      .field("host", &R::host)
      .field("device", &R::device)
      .field("step_seconds", &R::step_seconds, "duration of the whole step", {.nullable = true})
      .field("busy_seconds", &R::busy_seconds, "duration of the step without exposed communication",
             {.nullable = true})
      .field("exposed_seconds", &R::exposed_seconds, "duration of communication that is not overlapped",
             {.nullable = true})
      .field("peak_allocated", &R::peak_allocated, "active bytes", {.nullable = true, .integer = true})
      .field("peak_reserved", &R::peak_reserved, {.nullable = true, .integer = true})
      .field("process", &R::process, {.nullable = true, .integer = true})
      .field("parts", &R::parts, "total of memory.parts on that rank, in bytes",
             {.nullable = true, .integer = true})
      .field("sent_bytes", &R::sent_bytes, {.nullable = true});
}

Record<Collective> record_of(const Collective*) {
  using C = Collective;
  return Record<C>("a collective")
      .field("name", &C::name, "all_reduce, all_gather, ...", {.required = true})
      .field("group", &C::group, "dimension of the mesh")
      .field("ranks", &C::ranks, {.schema = {{"minimum", 1}}})
      .field("calls", &C::calls, {.nullable = true})
      .field("bytes", &C::bytes, "bytes of the tensors", {.nullable = true})
      .field("sent_bytes", &C::sent_bytes, "bytes that this rank sends", {.nullable = true})
      .field("theory_bytes", &C::theory_bytes, "bytes that this rank sends in theory", {.nullable = true});
}

static Record<CounterResult> record_of(const CounterResult*) {
  using C = CounterResult;
  return Record<C>("a counter")
      .field("name", &C::name, {.required = true})
      .field("unit", &C::unit)
      .custom(
          "per",
          {.doc = "run: value at the end of the timed steps; step: mean increase per timed step",
           .schema = {{"enum", {"run", "step"}}}},
          [](C& counter, const Json& per) { counter.per_step = per == "step"; },
          [](const C& counter) -> Json { return counter.per_step ? "step" : "run"; })
      .field("over_ranks", &C::over_ranks, "how the values of the ranks are combined",
             {.left_out = true, .schema = {{"enum", {"sum", "mean", "max"}}}})
      .field("value", &C::value, {.required = true});
}

namespace {
using R = RunResult;

// The counters are an object by plugin.
void read_counters(R& result, const Json& counters) {
  for (const auto& [plugin, list] : counters.items())
    for (const Json& one : list) {
      result.counters.push_back(fields_of<CounterResult>().read(one));
      result.counters.back().plugin = plugin;
    }
}
Json written_counters(const R& result) {
  Json counters = Json::object();
  for (const CounterResult& one : result.counters)
    counters[one.plugin].push_back(fields_of<CounterResult>().write(one));
  return counters;
}

Record<R> device_part() {
  return Record<R>("the device")
      .open()
      .custom(
          "type", {.schema = {{"enum", {"cpu", "cuda"}}}},
          [](R& result, const Json& type) { result.on_gpu = type == "cuda"; },
          [](const R& result) -> Json { return result.device.empty() ? ""
                                               : result.on_gpu       ? "cuda"
                                                                     : "cpu"; })
      .field("name", &R::device, {.required = true})
      .field("threads", &R::threads, {.left_out = true, .integer = true});
}

Record<R> flops_part() {
  return Record<R>("the FLOPs of a token")
      .open()
      .field("mfu", &R::mfu_flops, {.nullable = true})
      .field("mfu_causal", &R::mfu_causal_flops, {.nullable = true})
      .field("hfu", &R::hfu_flops, {.nullable = true});
}

Json costs_schema() {
  return {{"type", "object"},
          {"properties",
           {{"total", {{"$ref", "#/$defs/cost"}}},
            {"phases", {{"type", "object"}, {"additionalProperties", {{"$ref", "#/$defs/cost"}}}}},
            {"weight_casts", {{"type", "object"}}},
            {"operators", {{"type", "object"}}}}}};
}
}  // namespace

/// The fields, in the order of the file.
Record<RunResult> record_of(const RunResult*) {
  return Record<R>(
             "a run's result",
             "Result of one run. A worker or an external rung writes it to result.json. Bytes and seconds "
             "are plain numbers.")
      .custom(
          "schema_version", {.required = true, .schema = {{"const", 1}}},
          [](R&, const Json& version) {
            if (version != 1)
              throw Error(ErrorCode::invalid_file, "schema_version " + version.dump() + " is not supported",
                          "this build reads schema_version 1");
          },
          [](const R&) -> Json { return 1; })
      .field("status", &R::status, {.required = true})
      .field("reason", &R::reason,
             "empty if ok; otherwise the first line is the problem, and the other lines are the remedy",
             {.required = true})
      .field("code", &R::code,
             "kind of the error (docs/reference/errors.md); absent: ok, or an external program wrote the "
             "result",
             {.left_out = true})
      .field("where", &R::where, "place of the error: script:line, file or option; absent: not known",
             {.left_out = true})
      .part("device", device_part(), {.left_out = true})
      .field("plan", &R::plan, "resolved recipe, as worker --plan prints it", {.left_out = true})
      .field("plugins", &R::plugins)
      .field("setup_seconds", &R::setup_seconds)
      .field("steps", &R::steps, {.left_out = true})
      .field("tokens_per_second", &R::tokens_per_second,
             "processed tokens per second of all ranks: mean tokens of the timed steps divided by the "
             "median of their seconds; if the work differs by step (packed documents), total tokens "
             "divided by total seconds",
             {.nullable = true})
      .field("trained_tokens_per_second", &R::trained_tokens_per_second,
             "trained tokens per second, computed alike; absent: equal to tokens_per_second",
             {.nullable = true})
      .field("tokens_per_step", &R::tokens_per_step, "means of the timed steps, all ranks",
             {.left_out = true})
      .field("step_seconds", &R::step_seconds, "median of timed steps", {.nullable = true})
      .field("phases", &R::phases, "medians over timed steps", {.left_out = true})
      .field("traced", &R::traced,
             "written by the controller: seconds of the traced step by kind of work (product, attention, "
             "loss, elementwise, optimizer, communication), and gaps, in which nothing computes; they "
             "add up to the step",
             {.left_out = true})
      .field("validation", &R::validation, "losses on the validation data; not part of the step time",
             {.left_out = true})
      .field("saved", &R::saved,
             "saved states to continue from; the folder state beside the result has the last one; saving "
             "is not part of the step time",
             {.left_out = true})
      .field("memory", &R::memory, {.left_out = true})
      .field("costs", &R::costs,
             "GPU costs of the operators of one warm-up step, counted on the host "
             "(core/measure/operator_costs.h): total, phases, weight_casts (parameters: number of cast "
             "parameters; most: largest number of casts of one), operators (calls, launches, bytes of each)",
             {.nullable = true, .schema = costs_schema()})
      .field("collectives", &R::collectives, "collectives of rank 0 in one timed step", {.left_out = true})
      .field("energy_joules", &R::energy_joules,
             "energy of the whole device in the timed steps, the sum over ranks; null for interleaved "
             "runs, which share it",
             {.nullable = true})
      .field("gpu", &R::gpu,
             "power and clock of a GPU in the timed steps, by NVML, mean over ranks; absent for "
             "interleaved runs, which share it",
             {.left_out = true})
      .field("best", &R::best,
             "step of the lowest validation loss; the folder best beside the result has its state",
             {.left_out = true})
      .field("sample", &R::sample,
             "greedy continuations of the prompts by the trained model; first round only", {.left_out = true})
      .custom("counters",
              {.doc = "numbers that plugins report, by plugin",
               .left_out = true,
               .schema = {{"type", "object"},
                          {"additionalProperties",
                           {{"type", "array"}, {"items", fields_of<CounterResult>().schema()}}}}},
              read_counters, written_counters)
      .part("flops_per_token", flops_part(),
            {.doc = "mfu, mfu_causal, hfu: FLOPs of the timed steps by each formula, divided by their "
                    "processed tokens",
             .left_out = true})
      .field("compile_seconds", &R::compile_seconds)
      .field("notes", &R::notes)
      .field("ranks", &R::ranks, "one entry per rank, in the result of rank 0", {.left_out = true})
      .field("mesh", &R::mesh, "dimensions of the mesh, outermost first", {.left_out = true})
      .field("warnings", &R::warnings, "reasons to doubt the result; absent: none", {.left_out = true})
      .field("requested_bytes", &R::requested_bytes, "oom: size of the allocation that failed",
             {.nullable = true, .left_out = true, .integer = true})
      .field("rank", &R::rank, "rank that failed first, of several ranks", {.left_out = true})
      .field("cause", &R::cause,
             "cause of a failure. Of a rank: own, or a collective that ended because another rank ended "
             "or was late. Of a run: lost (the run or one of its ranks was ended from outside; --resume "
             "continues from its saved state, if any), missing (a rank was absent at the start; --resume "
             "reruns it), or timeout or peer as of a rank",
             {.left_out = true})
      .field("turns", &R::turns,
             "written by the controller: runs with the same value were interleaved step by step "
             "(docs/guides/running.md)",
             {.left_out = true})
      .field("cut", &R::cut, "written by the controller: why the run ended before its last step",
             {.left_out = true, .schema = {{"enum", {"time limit", "interrupt", "target loss"}}}})
      .then([](R& result) {
        if (result.tokens_per_second && !(*result.tokens_per_second > 0))
          throw Error(
              ErrorCode::invalid_file,
              "tokens_per_second is " + shown(Json(*result.tokens_per_second)) + ", but must be above 0");
        if (!result.trained_tokens_per_second) result.trained_tokens_per_second = result.tokens_per_second;
      })
      .brief_if([](const R& result) { return !result.ok(); });
}

bool RunResult::has_losses() const {
  return std::ranges::any_of(steps, [](const StepResult& step) { return std::isfinite(step.loss); });
}

Curve RunResult::curve() const {
  Curve curve;
  for (const auto& step : steps) {
    curve.losses.push_back(step.loss);
    curve.norms.push_back(step.grad_norm);
  }
  return curve;
}

void RunResult::withhold_speeds() {
  tokens_per_second = trained_tokens_per_second = step_seconds = energy_joules = std::nullopt;
  phases.clear();
  for (StepResult& step : steps) {
    step.timed = false;
    step.seconds = 0;
    step.phases.clear();
  }
  for (RankResult& rank : ranks) rank.step_seconds = rank.busy_seconds = rank.exposed_seconds = std::nullopt;
}

template <class Number>
static Number sum(const std::vector<StepResult>& steps, Number StepResult::*member, bool timed = true) {
  Number sum = 0;
  for (const StepResult& step : steps) sum += step.timed || !timed ? step.*member : 0;
  return sum;
}

int64_t RunResult::timed_tokens() const { return sum(steps, &StepResult::tokens); }
double RunResult::timed_seconds() const { return sum(steps, &StepResult::seconds); }

std::optional<double> RunResult::padding() const {
  const int64_t positions = sum(steps, &StepResult::positions, /*timed=*/false);
  if (positions == 0) return std::nullopt;
  const int64_t tokens = sum(steps, &StepResult::tokens, /*timed=*/false);
  return 1 - static_cast<double>(tokens) / static_cast<double>(positions);
}

RunResult run_result_from_json(const Json& json, const std::string& where) {
  try {
    return fields_of<RunResult>().read(json, where);
  } catch (const Json::exception& e) {
    throw Error(ErrorCode::invalid_file, std::string("invalid result of a run: ") + e.what(), {}, where);
  }
}

std::string unhealthy(const RunResult& result, TrainedBy trainer) {
  const auto has_norm = [](const StepResult& step) { return !std::isnan(step.grad_norm); };
  const bool losses = trainer == TrainedBy::worker || result.has_losses();
  const bool norms = trainer == TrainedBy::worker || std::ranges::any_of(result.steps, has_norm);
  // An update without a norm was skipped, as a loss scale that grows intends now and then.
  bool timed = false, updated = false;
  for (const auto& step : result.steps) {
    const auto at = [&] { return " at step " + std::to_string(step.step); };
    if (losses && !std::isfinite(step.loss)) return "the loss is not finite" + at();
    if (step.grad_norm == 0) return "the gradient norm is zero" + at() + ": nothing is trained";
    if (std::isinf(step.grad_norm)) return "the gradient norm is not finite" + at();
    timed |= step.timed;
    updated |= step.timed && has_norm(step);
  }
  if (norms && timed && !updated)
    return "the gradient norm was not finite, or the update was skipped, in every timed step; increase "
           "train.warmup";
  return {};
}
}  // namespace optrush
