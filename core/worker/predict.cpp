#include "worker/predict.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "base/first_line.h"
#include "base/spec_json.h"
#include "measure/cpu_info.h"
#include "measure/cuda_library.h"
#include "measure/gpus.h"
#include "measure/step_costs.h"
#include "optrush/host/resolve.h"
#include "simulated/device.h"
#include "train/session.h"
#include "train/train_step.h"

namespace optrush {
namespace {
bool foreseeable(const Edit& base) {
  return base.plugin == "plain" || base.traits.foreseeable.value_or(base.traits.trace != Trace::opaque);
}

/// A function of the step that can't be run on tensors without values: "'my_plugin' in unit"; empty: none.
std::string unforeseeable(const Recipe& recipe) {
  for (const SlotInfo* slot : recipe.slots()) {
    if (slot == &recipe.evaluation) continue;  // between steps
    if (!foreseeable(slot->base())) return "'" + slot->base().plugin + "' in " + slot->name();
    for (const Edit& wrap : slot->wraps())
      if (!wrap.traits.foreseeable.value_or(true)) return "'" + wrap.plugin + "' in " + slot->name();
  }
  return "";
}

/// Micro-batches of the right sizes, without data.
std::vector<Batch> shapes_of(const Session& session) {
  const TrainSpec& train = session.spec().train;
  const Model& model = session.model();
  const int64_t rows = train.micro_batch, length = train.seq_len;
  const auto options = at::TensorOptions().device(session.device());
  std::vector<Batch> batches(static_cast<size_t>(train.accumulation));
  for (Batch& batch : batches) {
    batch.valid_tokens = rows * length;
    batch.valid_sequences = rows;
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

std::optional<Forecast> forecast(const RunSpec& spec, at::DeviceType form, std::string* why_not) {
  const auto none = [&](const std::string& reason) {
    if (why_not != nullptr) *why_not = reason;
    return std::nullopt;
  };
  const at::Device device = simulated::open(simulated::Values::none, form);
  const auto opened = Session::open(spec, device, Ranks::planned(0, spec.train.world_size));
  Session& session = *opened;
  Recipe& recipe = session.recipe();
  if (const auto name = unforeseeable(recipe); !name.empty())
    return none("what " + name + " does can't be told from sizes");
  try {
    const int64_t before = simulated::allocated();
    simulated::reset_peak();
    session.connect();
    session.declare();
    session.make_ready();
    const auto schedule = recipe.schedule.resolve({}, plain_schedule);
    const auto data = recipe.data.resolve({}, [&](int64_t) { return shapes_of(session); });
    const auto clock = StepClock::make(device);
    const auto one_step = [&](StepClock& with, int64_t number) {
      session.begin_step(number);
      TrainStep step(session, with, data(number));
      schedule(step);
      recipe.fire(Event::step_end, session);
    };
    one_step(*clock, 0);  // in which what is made once is made: tables, caches
    StepCosts costs(session.params(), device);
    CountedClock counted(*clock, costs);
    one_step(counted, 1);
    costs.stop();
    return Forecast{simulated::peak() - before, costs.to_json()};
  } catch (const c10::Error& e) {
    return none(first_line(e.what_without_backtrace()));  // an operator without sizes, or a value
  } catch (const std::exception& e) {
    return none(e.what());
  }
}

void add_forecast(Json& plan, const RunSpec& spec) {
  const bool gpu = spec.device == "cuda" || (spec.device == "auto" && load_cuda());
  plan["memory"] = plan["costs"] = nullptr;
  std::string why_not;
  const auto found = forecast(spec, gpu ? at::kCUDA : at::kCPU, &why_not);
  if (!found) {
    plan["no_forecast"] = why_not;
    return;
  }
  Json available = gpu ? Json() : Json(read_cpu().available_bytes);
  if (gpu && load_cuda()) {
    const auto gpus = visible_gpus(nullptr);
    if (!gpus.empty()) available = gpus.front().memory_bytes;
  }
  plan["memory"] = {
      {"peak_bytes", found->peak_bytes}, {"available_bytes", available}, {"device", gpu ? "cuda" : "cpu"}};
  plan["costs"] = found->costs;
}
}  // namespace optrush
