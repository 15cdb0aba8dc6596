#include "script/max_batch.h"

#include <cmath>

#include "machine/visible_gpu.h"
#include "optrush/error.h"
#include "spec/value.h"

namespace optrush {
namespace {
/// The rest is for the CUDA context and for fragmentation in the caching allocator.
constexpr double kShareOfTensors = 0.9;
/// Share of the free memory on a CPU: processes have more than tensors, and there are other processes.
constexpr double kShareOfFree = 0.7;
/// A stack that trains on pairs refuses one sequence; no stack needs more than two.
constexpr int64_t kSmallest = 2;

void set_batch(RunSpec& spec, int64_t batch, int64_t sequences) {
  spec.train.micro_batch = batch;
  if (sequences > 0) spec.train.accumulation = sequences / batch;
}

/// The stack of a rung: the last one of a ladder of the first `count` rungs.
RunSpec stack_of(const Part& ladder, size_t count, Experiment experiment) {
  experiment.parts = {ladder};
  experiment.parts.front().rungs.resize(count);
  return expand(experiment).back().spec;
}

void refuse_own_batch(const Rung& rung) {
  const auto train = rung.settings.find("train");
  for (const char* key : {"micro_batch", "accumulation", "global_batch"})
    if (train != rung.settings.end() && train->contains(key))
      throw Error(ErrorCode::conflict,
                  "rung '" + rung.name + "' sets train." + key + ", but batch = \"max\" chooses the batch",
                  "remove the setting, or move this rung to a ladder without batch = \"max\"", rung.where);
}
}  // namespace

bool on_gpu(const ScriptContext& context) {
  const std::string& given = context.options().device;
  return given.empty() || given == "auto" ? gpu_is_visible() : given == "cuda";
}

double memory_limit(const LuaTable& options, ScriptContext& context, const std::string& who, int64_t ranks) {
  if (const auto* memory = options.find("memory")) return bytes_from(memory->json(), who + ": memory");
  if (!on_gpu(context))
    if (const double free = context.cpu().at("free_bytes"); free > 0)
      return kShareOfFree * free / static_cast<double>(ranks);
  const Json& gpu = on_gpu(context) ? context.gpu() : Json();
  if (gpu.is_null())
    throw Error(ErrorCode::missing_requirement, who + ": no GPU was found, so its memory is unknown",
                R"(give the memory, for example memory = "16GB")");
  return kShareOfTensors * gpu.at("memory_bytes").get<double>();
}

std::optional<int64_t> largest_micro_batch(RunSpec spec, const BatchLimits& limits, ScriptContext& context) {
  std::vector<int64_t> batches;
  for (int64_t batch = 1; batch <= limits.most && limits.divides % batch == 0; batch *= 2)
    batches.push_back(batch);
  std::optional<int64_t> fitting;
  bool predicted = true;
  for (const int64_t batch : batches) {
    if (!predicted) break;
    set_batch(spec, batch, limits.divides);
    const auto peak = context.ask([&](ScriptHost& host) { return host.predicted_peak(spec); });
    predicted = peak.has_value() || (batch < kSmallest && limits.most >= kSmallest);
    if (!peak) continue;
    fitting = fitting.value_or(0);
    if (static_cast<double>(*peak) > limits.memory_bytes) break;
    fitting = batch;
  }
  predicted = predicted && fitting;
  if (!limits.trial) return predicted ? fitting : std::nullopt;
  const auto holds = [&](int64_t batch) {
    set_batch(spec, batch, limits.divides);
    return context.ask([&](ScriptHost& host) {
      return host.holds({spec, limits.memory_bytes, context.script()});
    });
  };
  if (predicted) {
    int64_t batch = fitting.value_or(0);
    while (batch > 0 && !holds(batch).value_or(true)) batch /= 2;
    return batch;
  }
  // Starts small, because a run that is far too large may take the machine down.
  int64_t held = 0;
  for (const int64_t batch : batches) {
    const auto answer = holds(batch);
    if (!answer && batch < kSmallest) continue;
    if (!answer) return std::nullopt;
    if (!*answer) break;
    held = batch;
  }
  return held;
}

void fill_memory(Part& ladder, const Experiment& experiment, BatchLimits limits, ScriptContext& context) {
  if (experiment.program)
    throw Error(ErrorCode::unsupported,
                "exp:ladder: batch = \"max\" needs a model, and the base is a program",
                "state the batch of each rung: train = { micro_batch = ... }");
  const TrainSpec& base = experiment.base.train;
  limits.divides = limits.most = base.micro_batch * base.accumulation;
  for (size_t i = 0; i < ladder.rungs.size(); ++i) {
    Rung& rung = ladder.rungs[i];
    refuse_own_batch(rung);
    if (rung.external) continue;
    RunSpec stack = stack_of(ladder, i + 1, experiment);
    if (on_gpu(context)) stack.device = "cuda";
    const auto batch = largest_micro_batch(stack, limits, context);
    if (!batch && limits.trial) continue;  // unknown in a dry run: use the batch of the rung below
    if (!batch)
      throw Error(ErrorCode::unsupported,
                  "rung '" + rung.name + "': the memory of its step cannot be predicted",
                  "set trial = true to find the batch by test runs", rung.where);
    if (*batch == 0)
      throw Error(ErrorCode::out_of_memory,
                  "rung '" + rung.name + "': not even one sequence fits into " +
                      std::to_string(std::llround(limits.memory_bytes)) + " bytes",
                  "raise memory, or use a shorter sequence or a smaller model", rung.where);
    rung.settings["train"]["micro_batch"] = *batch;
    rung.settings["train"]["accumulation"] = limits.divides / *batch;
  }
}
}  // namespace optrush
