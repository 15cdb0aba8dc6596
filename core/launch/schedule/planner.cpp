#include "launch/schedule/planner.h"

#include <algorithm>
#include <iterator>

#include "base/files.h"
#include "base/number_text.h"
#include "base/temporary_folder.h"
#include "launch/folder.h"
#include "launch/run/result.h"
#include "optrush/error.h"
#include "results/worker_answer.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
/// Writes plan.json and log.txt in the folder.
ProcessEnd run_plan(const RunSpec& spec, const PlanRequest& request, const fs::path& folder,
                    Interrupts& interrupts) {
  write_json(folder / "spec.json", to_json(spec));
  std::vector<std::string> words = {request.workers.worker(), "plan",  "--spec",
                                    folder / "spec.json",     "--out", folder / "plan.json"};
  if (request.as_gpu) words.insert(words.end(), {"--sm", request.as_gpu->sm});
  return request.workers.run({std::move(words), worker_environment(spec), folder / "log.txt"}, request.limits,
                             interrupts);
}

/// Why the variant does not fit into this machine; empty if it may fit, or if nothing was predicted.
std::string lacking_memory(const Plan& plan, int64_t ranks) {
  const auto& memory = plan.memory;
  if (!memory || !memory->available) return "";
  const std::string available =
      bytes(*memory->available) + (memory->device == "cuda" ? " on its GPU" : " of host memory free");
  if (memory->least <= *memory->available) {
    const double validation = plan.validation && memory->bounded_by.empty() ? plan.validation->peak : 0;
    if (validation <= *memory->available) return "";
    return "a validation needs " + bytes(validation) + " on a rank, but it has " + available;
  }
  const std::string of_ranks = (memory->rank ? "rank " + std::to_string(*memory->rank) : "one") + " of " +
                               std::to_string(ranks) + " ranks";
  return (ranks > 1 ? "a step of " + of_ranks + " needs " : "a step needs ") +
         (memory->bounded_by.empty() ? "" : "at least ") + bytes(memory->least) + " (" +
         grouped(memory->least) + " bytes), but " +
         (ranks > 1 ? "a rank has at most " : "this machine has ") + available;
}

/// A program and each of its changes in the form of plugins, for plans: the gate uses their effects.
std::vector<UsedPlugin> as_plugins(const External& external) {
  const auto plugin = [&](const std::string& name, Effect effect, Json options) {
    return UsedPlugin{.name = name,
                      .version = "",
                      .file = external.command.front(),
                      .sha256 = "",
                      .effect = effect,
                      .options = std::move(options)};
  };
  std::vector<UsedPlugin> all = {plugin(program_name(external), external.effect,
                                        {{"command", external.command}, {"preload", external.preload}})};
  for (const ProgramChange& change : external.changes)
    all.push_back(plugin(change.rung, change.effect, {{"command", change.command}, {"args", change.args}}));
  return all;
}

/// The plan of a program that trains its own model: it has the batch and the length that the script states.
Plan plan_of_program(const Variant& variant) {
  Plan plan{.problem = variant.spec.train,
            .model_kind = variant.spec.model_kind,
            .model = variant.spec.model,
            .data = to_json(variant.spec.data),
            .no_forecast = "another program trains"};
  TrainSpec& train = plan.problem;
  if (train.global_batch == 0) train.global_batch = train.micro_batch * train.accumulation * train.world_size;
  if (variant.external) plan.plugins = as_plugins(*variant.external);
  return plan;
}

/// Converts a worker's answer.
Planned planned(WorkerAnswer answer, const Variant& variant, const std::optional<PlannedGpu>& as_gpu) {
  if (answer.failure) {
    if (variant.external && answer.failure->code == ErrorCode::wrong_ranks)
      return {.plan = plan_of_program(variant)};  // the program synchronizes its ranks itself
    return {.failure = *answer.failure, .refused = answer.failure->status == Status::failed};
  }
  Plan plan = plan_from_json(answer.asked, "plan of '" + variant.name + "'");
  if (as_gpu && plan.memory) plan.memory->available = static_cast<double>(as_gpu->memory_bytes);
  if (variant.external) {
    std::ranges::move(as_plugins(*variant.external), std::back_inserter(plan.plugins));
    plan.saving.reset();
    plan.validation.reset();
  }
  auto reason = lacking_memory(plan, variant.spec.train.world_size);
  if (variant.external || reason.empty()) return {.plan = std::move(plan)};
  if (!as_gpu) reason += "; --dry-run --as-gpu GPU plans it for another GPU";
  return {.failure = {Status::skipped, std::move(reason), ErrorCode::out_of_memory},
          .skipped_plan = std::move(plan),
          .lacks_memory = true};
}

bool changes_batch(const Variant& variant) {
  const auto train = variant.changed.find("train");
  return train != variant.changed.end() && (train->contains("micro_batch") || train->contains("seq_len"));
}

/// Advice: the largest micro-batch that is smaller than the spec's and fits.
std::string smaller_batch(RunSpec spec, double available, const PlanRequest& request,
                          Interrupts& interrupts) {
  const int64_t sequences = spec.train.micro_batch * spec.train.accumulation;
  int high = 1;  // exponent of two; `low` fits, `high` may not
  while ((int64_t{1} << high) < spec.train.micro_batch) ++high;
  const auto fits = [&](int64_t batch) {
    spec.train.micro_batch = batch;
    const auto peak = predicted_peak(spec, request, interrupts);
    return peak && static_cast<double>(*peak) <= available;
  };
  if (spec.train.micro_batch == 1 || !fits(1))
    return "even micro_batch = 1 does not fit: use a plugin that recomputes activations or cuts sequences "
           "over ranks, a shorter seq_len or a smaller model";
  int low = 0;
  while (high - low > 1) (fits(int64_t{1} << (low + high) / 2) ? low : high) = (low + high) / 2;
  const int64_t batch = int64_t{1} << low;
  return "train.micro_batch = " + std::to_string(batch) + " fits" +
         (sequences % batch == 0 ? ", with accumulation = " + std::to_string(sequences / batch) +
                                       " for the same sequences per step"
                                 : "");
}

/// The rungs of a ladder that are not wanted but are below a wanted one. If they are refused, the wanted rung
/// is stacked on others.
std::set<int64_t> only_stood_on(const std::vector<Variant>& variants, const Schedule& schedule) {
  std::set<int64_t> below;
  for (const Variant& variant : variants) {
    if (!schedule.wanted(variant)) continue;
    for (int64_t i = variant.previous; i >= 0; i = variants[static_cast<size_t>(i)].previous) {
      const Variant& other = variants[static_cast<size_t>(i)];
      if (other.group == "ladder" && other.has_own_runs() && !schedule.wanted(other)) below.insert(i);
    }
  }
  return below;
}

/// The effect of a program is relative to the program below it, so its losses also have the effects of that
/// one.
void add_program_below(Plan& plan, const Variant& variant, const std::vector<Variant>& variants,
                       const Plans& plans) {
  const auto below = static_cast<size_t>(variant.previous);
  if (!variant.external || variant.external->effect == Effect::model || variant.previous < 0 ||
      !variants.at(below).external || !plans.at(below))
    return;
  for (const UsedPlugin& used : plans.at(below)->plugins)
    if (std::ranges::none_of(plan.plugins, [&](const UsedPlugin& own) {
          return own.name == used.name && own.options == used.options;
        }))
      plan.plugins.push_back(used);
}
}  // namespace

std::optional<Planned> plan_variant(const Variant& variant, const PlanRequest& request,
                                    Interrupts& interrupts) {
  if (variant.spec.model_kind == kProgramKind) return Planned{.plan = plan_of_program(variant)};
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "plan.json", log = folder.path() / "log.txt";
  const ProcessEnd end = run_plan(variant.spec, request, folder.path(), interrupts);
  if (end.kind == ProcessEnd::Kind::interrupted) return std::nullopt;

  try {
    // The worker writes the complete plan before it predicts memory, so a later failure of the process costs
    // only the prediction.
    if (is_there(out)) {
      Planned made = planned(read_answer(out), variant, request.as_gpu);
      if (!end.ok() && made.plan && !made.plan->memory && made.plan->no_forecast.empty())
        made.plan->no_forecast = "the prediction failed: " + describe_bad_end(end, request.limits).reason;
      return made;
    }
  } catch (const Error& e) {
    return Planned{.failure = failed(e, "while planning: " + e.message())};
  }
  const BadEnd bad = describe_bad_end(end, request.limits);
  return Planned{
      .failure = {bad.status, "while planning: " + bad.reason + last_lines("its log", log_tail(log))}};
}

std::optional<NoPlans> plan_all(const Experiment& experiment, std::vector<Variant>& variants,
                                const Schedule& schedule, Plans& plans, const PlanRequest& request,
                                Interrupts& interrupts, const std::function<void(const Variant&)>& begins) {
  std::vector<Planned> all(variants.size());
  NoPlans failures;
  const std::set<int64_t> below = only_stood_on(variants, schedule);
  std::set<std::string> refused_rungs;
  DiskSpace disk(request.folder);
  for (const Variant& variant : variants)
    if (!schedule.wanted(variant) && !below.contains(variant.index) &&
        request.refused_before.contains(variant.name))
      refused_rungs.insert(variant.name);
  if (!refused_rungs.empty()) variants = expand(experiment, refused_rungs);
  for (size_t i = 0; i < variants.size(); ++i) {
    const Variant variant = variants[i];
    const bool wanted = schedule.wanted(variant);
    if (!wanted && !below.contains(variant.index)) continue;
    Planned& planned = all.at(i);
    if (variant.has_own_runs()) {
      begins(variant);
      auto made = plan_variant(variant, request, interrupts);
      if (!made) return std::nullopt;
      planned = std::move(*made);
      if (wanted && planned.plan && planned.plan->saving && !request.folder.empty())
        if (auto reason = disk.lacking(*planned.plan->saving,
                                       request.folder / "runs" / schedule.measured(variant, 0).id);
            !reason.empty())
          planned = {.failure = {Status::skipped, std::move(reason), ErrorCode::file_access},
                     .skipped_plan = std::move(planned.plan)};
    } else {
      planned = all.at(static_cast<size_t>(variant.same_as));
    }
    // If a rung keeps the base's batch, the batch is not the cause.
    if (wanted && planned.lacks_memory && variant.has_own_runs() &&
        (variant.index == 0 || changes_batch(variant)))
      planned.failure.reason +=
          "; " + smaller_batch(variant.spec, planned.skipped_plan->memory->available.value_or(0), request,
                               interrupts);
    if (planned.plan) add_program_below(*planned.plan, variant, variants, plans);
    if (wanted) plans.at(i) = planned.plan;
    if (wanted && !planned.plan) failures[variant.index] = planned;
    if (!planned.refused || variant.group != "ladder") continue;
    refused_rungs.insert(variant.name);
    variants = expand(experiment, refused_rungs);
  }
  return failures;
}

std::optional<int64_t> predicted_peak(const RunSpec& spec, const PlanRequest& request,
                                      Interrupts& interrupts) {
  const TemporaryFolder folder;
  run_plan(spec, request, folder.path(), interrupts);
  const fs::path out = folder.path() / "plan.json";
  if (!fs::exists(out)) return std::nullopt;
  const WorkerAnswer answer = read_answer(out);
  if (answer.failure) return std::nullopt;
  const auto memory = plan_from_json(answer.asked, out.string()).memory;
  return memory ? std::optional(static_cast<int64_t>(memory->peak)) : std::nullopt;
}
}  // namespace optrush
