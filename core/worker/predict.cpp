#include "worker/predict.h"

#include <ATen/Functions.h>

#include "measure/cpu_info.h"
#include "measure/gpus.h"
#include "measure/meta_memory.h"
#include "train/opened_run.h"
#include "train/train_step.h"
#include "worker/device.h"

namespace optrush {
namespace {
bool foreseeable(const Edit& base) {
  return base.plugin == "plain" || base.traits.foreseeable.value_or(base.traits.trace != Trace::opaque);
}

/// Whether every function of the step can be run on tensors without values.
bool foreseeable(const Recipe& recipe) {
  return std::ranges::all_of(recipe.slots(), [](const SlotInfo* slot) {
    return foreseeable(slot->base()) && std::ranges::all_of(slot->wraps(), [](const Edit& wrap) {
             return wrap.traits.foreseeable.value_or(true);
           });
  });
}

/// Micro-batches of the right sizes, without data.
std::vector<Batch> shapes_of(const RunSpec& spec, const Model& model) {
  const int64_t rows = spec.train.micro_batch, length = spec.train.seq_len;
  const auto options = at::TensorOptions(at::kMeta);
  std::vector<Batch> batches(static_cast<size_t>(spec.train.accumulation));
  for (Batch& batch : batches) {
    batch.valid_tokens = rows * length;
    if (model.vocab_size > 0) {
      batch.tokens = at::empty({rows, length}, options.dtype(at::kLong));
      batch.labels = at::empty_like(batch.tokens);
      batch.positions = at::empty({1, length}, options.dtype(at::kLong)).expand({rows, length});
    } else {
      batch.input = at::empty({rows, length, model.input_dim}, options.dtype(at::kFloat));
    }
  }
  return batches;
}
}  // namespace

std::optional<int64_t> predicted_peak(const RunSpec& given) {
  OpenedRun run(given, at::kMeta);
  Session& session = run.session();
  Recipe& recipe = run.recipe();
  if (!foreseeable(recipe)) return std::nullopt;
  try {
    const MetaMemory memory;
    run.declare();
    run.make_ready();
    const auto clock = StepClock::make(at::kCPU);
    recipe.fire(Event::step_begin, session);
    TrainStep step(session, *clock, shapes_of(session.spec(), session.model()));
    recipe.schedule.resolve({}, plain_schedule)(step);
    return memory.peak();
  } catch (const std::exception&) {
    return std::nullopt;  // an operator, a generator or a value that meta tensors don't have
  }
}

Json memory_forecast(const RunSpec& spec) try {
  const at::Device device = open_device(spec.device);
  const auto peak = predicted_peak(spec);
  if (!peak) return {};
  const auto gpus = device.is_cuda() ? visible_gpus(nullptr) : std::vector<GpuInfo>();
  const int64_t available = gpus.empty() ? read_cpu().available_bytes : gpus.front().memory_bytes;
  return {
      {"peak_bytes", *peak}, {"available_bytes", available}, {"device", device.is_cuda() ? "cuda" : "cpu"}};
} catch (const Skip&) {
  return {};  // no such device: the run will say so
}
}  // namespace optrush
