#include <algorithm>
#include <exception>

#include "checkpoint/written_config.h"
#include "spec/spec_json.h"
#include "train/run_setup.h"
#include "train/state.h"
#include "worker/exported_weights.h"
#include "worker/predict.h"

namespace optrush {
namespace {
constexpr int64_t kMostRanks = 64;  // a session is built for each

/// Lays out the file of one rank, and adds its size and the memory of saving.
void add_part(PlannedSaving& saving, const RunSpec& spec, const simulated::Form& form, int64_t rank) {
  const at::Device device = simulated::open(form);
  const auto session = RunSetup::open(spec, device, Ranks::planned(rank, spec.train.world_size));
  session->connect();
  session->declare();
  session->make_ready();
  simulated::reset_peak();
  const int64_t before = simulated::allocated().total();
  const EvaluatedParameters evaluated(*session);
  const SafetensorsContent content = state_part_content(state_to_save(*session, 0, DataPosition{}));
  saving.parts.push_back(static_cast<double>(content.bytes()));
  const bool on_host = form.type == at::kCPU;
  const auto copies = static_cast<double>(simulated::peak().total() - before);
  const auto staged = static_cast<double>(content.staged_bytes(on_host));
  saving.host = std::max(saving.host, staged + (on_host ? copies : 0));
  if (!on_host) saving.device = std::max(saving.device.value_or(0), copies);
}

/// The weights that `optrush weights` writes of a state, with the type of the training.
void add_exports(PlannedSaving& saving, const RunSpec& whole) {
  const at::Device host = simulated::open(at::kCPU);
  RunSpec spec = reduced_to(whole, {Effect::model});
  spec.start.clear();
  const auto own = own_parameters(spec);
  const auto session = session_to_export(spec, host);
  int64_t largest = 0;
  for (const Param* param : session->params().all())
    largest = std::max(largest, static_cast<int64_t>(param->leaf.nbytes()));
  // A parameter of the state is read in pieces and then joined.
  const int64_t reading = simulated::allocated().total() + 2 * largest;
  const auto planned = [&](NamedTensors weights, const Storage& storage) {
    const SafetensorsContent content = weights_content(std::move(weights), spec.train.dtype, storage);
    return PlannedWeights{.bytes = static_cast<double>(content.bytes()),
                          .host = static_cast<double>(std::max(reading, simulated::peak().total()))};
  };
  const bool adapted = has_adapter(*session, own);
  const Storage storage = storage_of(llama_of(spec));
  if (adapted) saving.weights = planned(adapter_weights(*session, own), storage);
  if (!unwritable(whole))
    (adapted ? saving.merged : saving.weights) = planned(model_weights(*session, own), storage);
}
}  // namespace

std::optional<PlannedSaving> forecast_saving(const RunSpec& spec, const simulated::Form& form) {
  const int64_t steps = spec.train.warmup + spec.train.steps;
  const int64_t regular = times_due(spec.save.every, steps);
  const int64_t best = spec.validate.keep_best ? times_due(spec.validate.every, steps) : 0;
  if (regular + best == 0 || spec.train.world_size > kMostRanks) return std::nullopt;
  try {
    RunSpec without_compilers = spec;
    {
      std::string bounds;
      const auto session =
          RunSetup::open(spec, simulated::open(form), Ranks::planned(0, spec.train.world_size));
      remove_compilers(without_compilers, session->recipe(), bounds);
    }
    PlannedSaving saving{.states = only_epochs(spec.train) ? std::nullopt : std::optional(regular + best)};
    for (int64_t rank = 0; rank < spec.train.world_size; ++rank)
      add_part(saving, without_compilers, form, rank);
    const auto copies = [&](int64_t count) { return saving.bytes() * static_cast<double>(count); };
    const int64_t kept = (regular > 0 ? 1 : 0) + (best > 0 ? 1 : 0);
    saving.kept = copies(kept);
    saving.disk = copies(kept + (regular > 1 || best > 1 ? 1 : 0));
    if (spec.model_kind == "llama") add_exports(saving, without_compilers);
    return saving;
  } catch (const std::exception&) {  // also LibTorch's: a plugin needs values
    return std::nullopt;
  }
}
}  // namespace optrush
