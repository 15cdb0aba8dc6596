#include "worker/predict.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <exception>

#include "base/text.h"
#include "data/batches.h"
#include "distributed/planned_mail.h"
#include "machine/visible_gpu.h"
#include "measure/cpu_info.h"
#include "measure/gpus.h"
#include "measure/step_costs.h"
#include "optrush/host/resolve.h"
#include "spec/spec_json.h"
#include "train/run_setup.h"
#include "train/train_step.h"
#include "train/validation.h"

namespace optrush {
namespace {
bool predictable(const Edit& base) {
  return base.plugin == "plain" || base.traits.predictable.value_or(base.traits.trace != Trace::opaque);
}

constexpr std::string_view kCompilersPlace = "compile";

/// An edit of the step that can't run on tensors without values.
struct Unpredictable {
  Edit edit;
  std::string slot;
  std::string place() const { return "'" + edit.plugin + "' in " + slot; }
  /// Whether the forecast may leave the wrap out: it compiles or records what it wraps, as its phase shows.
  bool can_go() const { return compiles() || edit.phase == Phase::capture; }
  /// Compared by the name of the phase, because core names no technique.
  bool compiles() const { return to_string(edit.phase) == kCompilersPlace; }
};

std::vector<Unpredictable> unpredictable(const Recipe& recipe) {
  std::vector<Unpredictable> found;
  for (const SlotInfo* slot : recipe.slots()) {
    if (slot == &recipe.evaluation) continue;  // used only between steps
    if (!predictable(slot->base())) found.push_back({slot->base(), slot->name()});
    for (const Edit& wrap : slot->wraps())
      if (!wrap.traits.predictable.value_or(true)) found.push_back({wrap, slot->name()});
  }
  return found;
}

/// Micro-batches with the right sizes, without data.
std::vector<Batch> shapes_of(const Session& session, int64_t count) {
  const TrainSpec& train = session.spec().train;
  const Model& model = session.model();
  const int64_t rows = train.micro_batch, length = train.seq_len;
  const auto options = at::TensorOptions().device(session.device());
  std::vector<Batch> batches(static_cast<size_t>(count));
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

std::unique_ptr<RunSetup> opened(const RunSpec& spec, at::Device device, int64_t rank = 0,
                                 std::shared_ptr<PlannedMail> mail = nullptr) {
  return RunSetup::open(spec, device, Ranks::planned(rank, spec.train.world_size, std::move(mail)));
}

/// One rank for each coordinate along the dimensions whose ranks keep different layers.
std::vector<int64_t> ranks_of_layers(const Mesh& mesh) {
  std::vector<int64_t> ranks = {0};
  int64_t apart = mesh.world_size();
  for (const Mesh::Dim& dim : mesh.dims()) {
    apart /= dim.size;
    if (dim.splits != Splits::layers) continue;
    const size_t found = ranks.size();
    for (int64_t place = 1; place < dim.size; ++place)
      for (size_t i = 0; i < found; ++i) ranks.push_back(ranks[i] + place * apart);
  }
  return ranks;
}

/// Keeps the memory of the rank that needs most.
void keep_larger(StepForecast& found, const StepForecast& other) {
  const double least = std::max(found.memory.least, other.memory.least);
  if (other.memory.peak > found.memory.peak) {
    found.memory = other.memory;
    found.validation = other.validation;
  }
  found.memory.least = least;
}

/// Validates after the last step of a forecast, which has `step_flops`. None if a plugin needs values.
std::optional<PlannedValidation> forecast_validation(RunSetup& session, double step_flops) try {
  constexpr int64_t kMostRounds = 32;  // later ones repeat them
  const TrainSpec& train = session.spec().train;
  const int64_t rows = train.micro_batch * session.mesh().size(session.mesh().batch());
  const int64_t rounds = (session.spec().validate.sequences + rows - 1) / rows,
                made = std::min(rounds, kMostRounds), steps = train.warmup + train.steps;
  const Validation validation(session, {});
  simulated::reset_peak();
  StepCosts costs(session.params(), session.device());
  costs.enter(Bucket::forward);
  const std::vector<Batch> batches = shapes_of(session, rounds);
  validation.loss({batches.begin(), batches.begin() + made});
  costs.stop();
  const int64_t due = times_due(session.spec().validate.every, steps);
  PlannedValidation found{.times = only_epochs(train) ? std::nullopt : std::optional(due),
                          .positions = rounds * rows * train.seq_len,
                          .peak = static_cast<double>(simulated::peak().total())};
  const auto times = static_cast<double>(due * rounds) / static_cast<double>(made * steps);
  if (step_flops > 0) found.flops = costs.total().flops() / step_flops * times;
  return found;
} catch (const std::exception&) {
  return std::nullopt;
}

StepForecast forecast_step(const RunSpec& spec, const simulated::Form& form, int64_t rank,
                           const std::shared_ptr<PlannedMail>& mail) {
  const at::Device device = simulated::open(form);
  const auto kept = opened(spec, device, rank, mail);
  RunSetup& session = *kept;
  RunRecipe& recipe = session.recipe();
  session.connect();
  session.declare();
  session.make_ready();
  const auto schedule = recipe.schedule.resolve({}, default_schedule);
  const auto data =
      recipe.data.resolve({}, [&](int64_t) { return shapes_of(session, session.spec().train.accumulation); });
  const auto clock = StepClock::make(device);
  // What the device holds when the optimizer starts: parameters, gradients and optimizer state.
  int64_t states = 0;
  WatchedClock noted(*clock, [&](const auto& bucket) {
    if (bucket == Bucket::optimizer) states = simulated::allocated().total();
  });
  const auto one_step = [&](StepClock& with, int64_t number) {
    session.begin_step(number);
    TrainStep step(session, with, data(number));
    schedule(step);
    recipe.fire(Event::step_end, session);
  };
  one_step(noted, 0);  // the first step, which also creates tables and caches
  StepCosts costs(session.params(), device);
  WatchedClock counted(noted, costs.watch());
  one_step(counted, 1);
  costs.stop();
  const simulated::Memory peak = simulated::peak();
  const auto bytes = [](int64_t count) { return static_cast<double>(count); };
  StepForecast found{.memory = {.peak = bytes(peak.total()),
                                .least = bytes(std::min(peak.total(), states)),
                                .tensors = bytes(peak.tensors),
                                .block_rounding = bytes(peak.rounding),
                                .cublas_workspaces = bytes(peak.workspaces),
                                .device = form.type == at::kCUDA ? "cuda" : "cpu"},
                     .costs = costs.to_json()};
  if (form.type == at::kCUDA) {
    found.memory.reserved = bytes(simulated::reserved());
    found.memory.pinned = bytes(simulated::peak_pinned());
    if (const int64_t count = recipe.run_mesh().groups().communicators(); count > 0)
      found.memory.communicators = bytes(count);
  }
  if (spec.validate.every > 0) found.validation = forecast_validation(session, costs.total().flops());
  return found;
}

/// The architecture of this machine's GPU.
std::string architecture_here() {
  const auto gpus = visible_gpus(nullptr);
  return gpus.empty() ? "" : gpus.front().sm;
}
}  // namespace

std::vector<std::string> remove_compilers(RunSpec& spec, const Recipe& recipe, std::string& why_bound) {
  std::vector<std::string> others;
  for (const Unpredictable& each : unpredictable(recipe)) {
    if (!each.can_go()) {
      others.push_back(each.place());
      continue;
    }
    std::erase_if(spec.plugins, [&](const PluginUse& use) { return use.name == each.edit.plugin; });
    why_bound += (why_bound.empty() ? "" : "; ") +
                 (each.compiles()
                      ? "units compiled by '" + each.edit.plugin +
                            "' are assumed to need no more memory than uncompiled ones"
                      : "a step recorded by '" + each.edit.plugin +
                            "' is assumed to need as much memory as without recording, all of it reserved");
  }
  return others;
}

std::optional<StepForecast> forecast(const RunSpec& spec, const simulated::Form& form, std::string* why_not,
                                     const RunSetup* setup) {
  const auto none = [&](const std::string& reason) {
    if (why_not != nullptr) *why_not = reason;
    return std::nullopt;
  };
  try {
    const at::Device device = simulated::open(form);
    const auto opened_here = setup == nullptr ? opened(spec, device) : nullptr;
    if (setup == nullptr) setup = opened_here.get();
    RunSpec predicted = spec;
    std::string bounded_by;
    if (const auto others = remove_compilers(predicted, setup->recipe(), bounded_by); !others.empty())
      throw Error(ErrorCode::unsupported, others.front() + " depends on values, not only on sizes");
    const auto mail = std::make_shared<PlannedMail>();
    if (made_of_documents(spec.data) && padding_of(setup->recipe()) == Padding::to_longest)
      bounded_by += std::string(bounded_by.empty() ? "" : "; ") +
                    "the longest document of a micro-batch is assumed to fill train.seq_len";
    StepForecast found = forecast_step(predicted, form, 0, mail);
    const std::vector<int64_t> ranks = ranks_of_layers(setup->mesh());
    if (ranks.size() > 1) found.memory.rank = 0;
    for (auto rank = ranks.begin() + 1; rank != ranks.end(); ++rank) {
      StepForecast other = forecast_step(predicted, form, *rank, mail);
      other.memory.rank = *rank;
      keep_larger(found, other);
    }
    if (bounded_by.empty()) {
      found.memory.least = found.memory.peak;
    } else {
      found.memory.bounded_by = std::move(bounded_by);
      found.costs = nullptr;
    }
    return found;
  } catch (const c10::Error& e) {
    // an operator needs values, or has no rule for sizes
    return none(first_line(e.what_without_backtrace()));
  } catch (const std::exception& e) {
    return none(e.what());
  }
}

void add_forecast(Plan& plan, const RunSpec& spec, const std::string& architecture, const RunSetup* setup) {
  const bool gpu = spec.device == "cuda" || (spec.device == "auto" && load_cuda());
  simulated::Form form(gpu ? at::kCUDA : at::kCPU);
  if (const auto sm = architecture.empty() && gpu ? architecture_here() : architecture; !sm.empty())
    form.architecture = sm;
  plan.saving = forecast_saving(spec, form);
  const auto found = forecast(spec, form, &plan.no_forecast, setup);
  if (!found) return;
  const auto bytes = [](int64_t count) { return static_cast<double>(count); };
  PlannedMemory& memory = plan.memory.emplace(found->memory);
  if (gpu) {
    if (const auto gpus = visible_gpus(nullptr); !gpus.empty()) {
      const int64_t count = std::ssize(gpus), ranks_of_one = (spec.train.world_size + count - 1) / count;
      memory.available = bytes(gpus.front().memory_bytes / (ranks_may_share_a_gpu() ? ranks_of_one : 1));
    }
  } else {
    memory.available = bytes(read_cpu().available_bytes);
  }
  plan.costs = found->costs;
  plan.validation = found->validation;
}
}  // namespace optrush
