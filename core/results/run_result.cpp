#include "results/run_result.h"

#include <algorithm>
#include <cmath>

#include "optrush/error.h"
#include "results/document_checks.h"
#include "results/record.h"
#include "spec/value.h"

namespace optrush {
const Record<StepResult>& record_of(const StepResult*) {
  using S = StepResult;
  static const auto record =
      Record<S>("a step")
          .field("step", &S::step, {.required = true})
          .field("timed", &S::timed,
                 {.doc = "false: warm-up, or the first step of a turn of several", .required = true})
          .field("loss", &S::loss,
                 {.doc = "mean next-token loss over the global batch", .required = true, .nullable = true})
          .field("grad_norm", &S::grad_norm,
                 {.doc = "L2 norm of the step's whole gradient, before clipping; null: not finite, its "
                         "update was skipped. A program that never reports it has null in every step",
                  .required = true,
                  .nullable = true})
          .field("learning_rate", &S::learning_rate,
                 {.doc = "that of the step's update; a program may leave it out", .left_out = true})
          .field("tokens", &S::trained,
                 {.doc = "tokens trained: those that a loss is taken on, all ranks", .required = true})
          .field("processed_tokens", &S::tokens,
                 {.doc = "tokens processed: every position of a sequence but padding, prompts among them, "
                         "all ranks; left out: as many as are trained"})
          .field("positions", &S::positions,
                 {.doc = "positions of all sequences, padding among them, all ranks; left out: as many as "
                         "tokens are processed"})
          .field("attention_pairs", &S::attention_pairs,
                 {.doc = "pairs of positions of one document, in any order: the squares of the documents' "
                         "lengths, added up, all ranks",
                  .left_out = true})
          .field("seconds", &S::seconds, {.required = true})
          .field("phases", &S::phases,
                 {.doc = "seconds of data, forward, backward, communication, optimizer; null: cannot be "
                         "told apart",
                  .required = true})
          .then([](S& step) {
            // A program that masks nothing need not say more.
            if (step.tokens == -1) step.tokens = step.trained;
            if (step.positions == -1) step.positions = step.tokens;
            constexpr int64_t kMost = 1'000'000'000'000;  // so that a sum over steps is a number
            for (const int64_t count : {step.trained, step.tokens, step.positions})
              if (count < 0 || count > kMost) throw Error("a step of " + std::to_string(count) + " tokens");
            if (step.tokens > step.positions)
              throw Error("a step processes " + std::to_string(step.tokens) + " tokens in " +
                          std::to_string(step.positions) + " positions");
          });
  return record;
}

const Record<Memory>& record_of(const Memory*) {
  using M = Memory;
  static const auto record =
      Record<M>("memory")
          .field("peak_allocated", &M::allocated,
                 {.doc = "active: bytes that tensors hold, at the peak of the timed steps; on a GPU those "
                         "of blocks in use, the ones that another stream still reads included",
                  .nullable = true,
                  .integer = true})
          .field("peak_reserved", &M::reserved,
                 {.doc = "bytes that the caching allocator holds of the device, at their peak; null on a CPU",
                  .nullable = true,
                  .integer = true})
          .field("process", &M::process,
                 {.doc = "process's use of the device by NVML; peak resident set on a CPU",
                  .nullable = true,
                  .integer = true})
          .field("parts", &M::parts,
                 {.doc = "bytes of tensors of a step: parameters, gradients, optimizer_state, activations "
                         "(what the backward keeps), total; they need not all be there at once",
                  .left_out = true,
                  .integer = true});
  return record;
}

const Record<ValidationPoint>& record_of(const ValidationPoint*) {
  using V = ValidationPoint;
  static const auto record =
      Record<V>("a validation")
          .field("step", &V::step,
                 {.doc = "that the parameters are about to train on: of every step before it they know",
                  .required = true})
          .field("loss", &V::loss,
                 {.doc = "mean next-token loss over its sequences, all ranks", .required = true})
          .field("seconds", &V::seconds, {.doc = "that it took", .left_out = true});
  return record;
}

const Record<SavedPoint>& record_of(const SavedPoint*) {
  using P = SavedPoint;
  static const auto record =
      Record<P>("a saved state")
          .field("step", &P::step, {.doc = "the next one", .required = true})
          .field("seconds", &P::seconds, {.doc = "that saving took", .required = true})
          .field("bytes", &P::bytes, {.doc = "of the files of all ranks", .required = true, .integer = true});
  return record;
}

const Record<SampledText>& record_of(const SampledText*) {
  using S = SampledText;
  static const auto record = Record<S>("a sample")
                                 .field("prompt", &S::prompt, {.required = true})
                                 .field("text", &S::text, {.required = true});
  return record;
}

const Record<BestState>& record_of(const BestState*) {
  using B = BestState;
  static const auto record = Record<B>("the best state")
                                 .field("step", &B::step, {.doc = "after it", .required = true})
                                 .field("loss", &B::loss, {.required = true});
  return record;
}

const Record<TokensPerStep>& record_of(const TokensPerStep*) {
  using T = TokensPerStep;
  static const auto record =
      Record<T>("the tokens of a step")
          .field("processed", &T::processed, {.left_out = true})
          .field("trained", &T::trained, {.left_out = true})
          .field("padding", &T::padding, {.doc = "its part of all positions, 0 to 1", .left_out = true});
  return record;
}

namespace {
const Record<CounterResult>& record_of_counter() {
  using C = CounterResult;
  static const auto record =
      Record<C>("a counter")
          .field("name", &C::name, {.required = true})
          .field("unit", &C::unit, {})
          .custom({"per",
                   {.doc = "run: at the end of the timed steps; step: what they added, over their number",
                    .schema = {{"enum", {"run", "step"}}}},
                   [](C& counter, const Json& per) { counter.per_step = per == "step"; },
                   [](const C& counter) -> Json { return counter.per_step ? "step" : "run"; }})
          .field("over_ranks", &C::over_ranks,
                 {.doc = "what is made of the ranks' values",
                  .left_out = true,
                  .schema = {{"enum", {"sum", "mean", "max"}}}})
          .field("value", &C::value, {.required = true});
  return record;
}

using R = RunResult;

/// By plugin.
Record<R>::Field counters_field() {
  return {
      "counters",
      {.doc = "numbers that plugins tell of the run, by plugin",
       .left_out = true,
       .schema = {{"type", "object"},
                  {"additionalProperties", {{"type", "array"}, {"items", record_of_counter().schema()}}}}},
      [](R& result, const Json& counters) {
        for (const auto& [plugin, list] : counters.items())
          for (const Json& one : list) {
            result.counters.push_back(record_of_counter().read(one));
            result.counters.back().plugin = plugin;
          }
      },
      [](const R& result) {
        Json counters = Json::object();
        for (const CounterResult& one : result.counters)
          counters[one.plugin].push_back(record_of_counter().write(one));
        return counters;
      }};
}

Record<R>::Field plugins_field() {
  return {"plugins",
          {.schema = {{"type", "array"},
                      {"items", {{"type", "object"}, {"required", {"name", "version", "file", "sha256"}}}}}},
          [](R& result, const Json& plugins) {
            check_used_plugins(plugins, {});
            result.plugins = plugins;
          },
          [](const R& result) { return result.plugins; }};
}

Record<R> device_part() {
  return Record<R>("the device")
      .open()
      .custom({"type",
               {.schema = {{"enum", {"cpu", "cuda"}}}},
               [](R& result, const Json& type) { result.on_gpu = type == "cuda"; },
               [](const R& result) -> Json {
                 return result.device.empty() ? "" : result.on_gpu ? "cuda" : "cpu";
               }})
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

Json cost_schema() {
  return {{"type", "object"},
          {"description", "null: a CPU copies nothing to itself"},
          {"required",
           {"launches", "host_waits", "copies", "copied_bytes", "casts", "cast_bytes", "elementwise_bytes",
            "matmul_flops", "attention_flops", "noted_flops"}},
          {"additionalProperties", {{"type", {"integer", "null"}}}}};
}

/// In the order in which a worker writes them.
const Record<R>& run_result_record() {
  static const auto record =
      Record<R>("a run's result",
                "What one run measured. Written by a worker (or an external rung) to result.json; bytes and "
                "seconds are plain numbers.")
          .custom({"schema_version",
                   {.required = true, .schema = {{"const", 1}}},
                   [](R&, const Json& version) {
                     if (version != 1)
                       throw Error("schema_version " + version.dump() + " is not known",
                                   "this build reads version 1");
                   },
                   [](const R&) -> Json { return 1; }})
          .field("status", &R::status, {.required = true})
          .field("reason", &R::reason,
                 {.doc = "empty when ok; else the first line says what, the rest the cure", .required = true})
          .part("device", device_part(), {.left_out = true})
          .field("plan", &R::plan,
                 {.doc = "the resolved recipe, as worker --plan prints it",
                  .left_out = true,
                  .schema = {{"type", "object"}}})
          .custom(plugins_field())
          .field("setup_seconds", &R::setup_seconds, {})
          .field("steps", &R::steps, {.left_out = true})
          .field("tokens_per_second", &R::tokens_per_second,
                 {.doc = "tokens processed a second, all ranks: the mean of the timed steps over the median "
                         "of their seconds; where steps do other work each, as kernels that follow the "
                         "lengths of packed documents, the sum over the sum of their seconds",
                  .nullable = true})
          .field("trained_tokens_per_second", &R::trained_tokens_per_second,
                 {.doc = "tokens trained a second, likewise; left out: tokens_per_second", .nullable = true})
          .field("tokens_per_step", &R::tokens_per_step,
                 {.doc = "means of the timed steps, all ranks", .left_out = true})
          .field("step_seconds", &R::step_seconds, {.doc = "median of timed steps", .nullable = true})
          .field("phases", &R::phases, {.doc = "medians over timed steps", .left_out = true})
          .field("validation", &R::validation,
                 {.doc = "the loss on data that training never reads, outside of the steps' time",
                  .left_out = true})
          .field("saved", &R::saved,
                 {.doc = "states that another run can go on from, in the folder state beside the result, "
                         "where the last one is left; saved between steps, outside of their time",
                  .left_out = true})
          .field("memory", &R::memory, {.left_out = true})
          .field("costs", &R::costs,
                 {.doc = "what the operators of one warm-up step cost a GPU, counted by the host "
                         "(core/measure/operator_costs.h): total, phases, weight_casts (parameters: how "
                         "many are cast; most: how often one is), operators (calls, launches, bytes of "
                         "each)",
                  .nullable = true,
                  .schema = costs_schema()})
          .field("collectives", &R::collectives, {.doc = "of rank 0 in one timed step", .left_out = true})
          .field("energy_joules", &R::energy_joules,
                 {.doc = "of the whole device; null of interleaved runs, which share it", .nullable = true})
          .field("best", &R::best,
                 {.doc = "where the validation loss was lowest; that state is in the folder best beside the "
                         "result",
                  .left_out = true})
          .field("sample", &R::sample,
                 {.doc = "what the trained model continues prompts with, each token the most probable one; "
                         "by the first round",
                  .left_out = true})
          .custom(counters_field())
          .part("flops_per_token", flops_part(),
                {.doc = "mfu, mfu_causal, hfu: FLOPs by each formula, of the timed steps together, over the "
                        "tokens that they processed",
                 .left_out = true})
          .field("compile_seconds", &R::compile_seconds, {})
          .field("notes", &R::notes, {})
          .field("ranks", &R::ranks,
                 {.doc = "of rank 0, where several trained together: one each", .left_out = true})
          .field("mesh", &R::mesh, {.doc = "its dimensions, outermost first", .left_out = true})
          .field("warnings", &R::warnings,
                 {.doc = "what puts the result in doubt; absent where nothing does", .left_out = true})
          .field("requested_bytes", &R::requested_bytes,
                 {.doc = "oom: size of the allocation that failed",
                  .nullable = true,
                  .left_out = true,
                  .integer = true})
          .field("rank", &R::rank, {.doc = "of several ranks, the one that failed first", .left_out = true})
          .field("cause", &R::cause,
                 {.doc = "of several ranks, one that failed: own, or a collective that ended because another "
                         "rank went away, or did not arrive in time. Of a run: lost, something outside ended "
                         "it or a rank of it, and --resume goes on with it where it has saved a state; "
                         "missing, a rank was not there when it was to begin, and --resume makes it again",
                  .left_out = true})
          .field(
              "turns", &R::turns,
              {.doc = "in what the controller stores: runs with the same one were interleaved step by step "
                      "(docs/guides/running.md), so their steps of one number were made "
                      "within seconds",
               .left_out = true})
          .field("cut", &R::cut,
                 {.doc = "in what the controller stores: why the run ended before its last step",
                  .left_out = true,
                  .schema = {{"enum", {"time limit", "interrupt"}}}})
          .then([](R& result) {
            if (result.tokens_per_second && !(*result.tokens_per_second > 0))
              throw Error("tokens_per_second is " + shown(Json(*result.tokens_per_second)) +
                          ", and a speed is above 0");
            if (!result.trained_tokens_per_second)
              result.trained_tokens_per_second = result.tokens_per_second;
          })
          .brief_if([](const R& result) { return !result.ok(); });
  return record;
}
}  // namespace

Curve RunResult::curve() const {
  Curve curve;
  for (const auto& step : steps) {
    curve.losses.push_back(step.loss);
    curve.norms.push_back(step.grad_norm);
  }
  return curve;
}

int64_t RunResult::timed_tokens() const {
  int64_t tokens = 0;
  for (const auto& step : steps) tokens += step.timed ? step.tokens : 0;
  return tokens;
}

std::optional<double> RunResult::padding() const {
  int64_t positions = 0;
  for (const auto& step : steps) positions += step.timed ? step.positions : 0;
  if (positions == 0) return std::nullopt;
  return 1 - static_cast<double>(timed_tokens()) / static_cast<double>(positions);
}

RunResult run_result_from_json(const Json& json, const std::string& where) {
  try {
    return run_result_record().read(json);
  } catch (const Error& e) {
    throw e.at(where);
  } catch (const Json::exception& e) {
    throw Error(std::string("not a run's result: ") + e.what(), {}, where);
  }
}

Json to_json(const RunResult& result) { return run_result_record().write(result); }

Json run_result_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"$id", "optrush/run_result"},
                 {"title", "RunResult"}};
  schema.update(run_result_record().schema());
  schema["$defs"] = {{"rank", schema["properties"]["ranks"]["items"]},
                     {"collective", schema["properties"]["collectives"]["items"]},
                     {"cost", cost_schema()}};
  schema["properties"]["ranks"]["items"] = {{"$ref", "#/$defs/rank"}};
  schema["properties"]["collectives"]["items"] = {{"$ref", "#/$defs/collective"}};
  return schema;
}

std::string unhealthy(const RunResult& result, Trainer trainer) {
  const auto has_norm = [](const StepResult& step) { return !std::isnan(step.grad_norm); };
  const bool norms = trainer == Trainer::worker || std::ranges::any_of(result.steps, has_norm);
  for (const auto& step : result.steps) {
    const std::string at = " at step " + std::to_string(step.step);
    if (!std::isfinite(step.loss)) return "the loss is not finite" + at;
    if (step.grad_norm == 0) return "the gradient norm is zero" + at + ": nothing is trained";
    if (norms && step.timed && !std::isfinite(step.grad_norm))
      return "the gradient norm is not finite, or its update was skipped," + at +
             "; more warm-up steps may help";
  }
  return {};
}
}  // namespace optrush
