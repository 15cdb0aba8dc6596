#include "launch/interleaving/interleaving_choice.h"

#include <algorithm>
#include <optional>

namespace optrush {
namespace {
/// Memory of a process besides tensors: LibTorch, threads, helpers that compile.
constexpr double kOverhead = 0.5e9;
/// Share of the free memory that may be used.
constexpr double kShareOfMemory = 0.8;

/// The memory that runs may share, on a CPU. `free_bytes`: present free memory, for plans without the value
/// at their time.
double shared_memory(const Plans& plans, double free_bytes) {
  std::optional<double> free;
  for (const auto& plan : plans) {
    if (!plan || !plan->memory) continue;
    const auto& memory = plan->memory;
    if (memory->device != "cpu") return 0;
    if (memory->available) free = std::min(free.value_or(*memory->available), *memory->available);
  }
  return kShareOfMemory * free.value_or(free_bytes);
}

/// Bytes of a process of a job. A plan predicts the worker's step and not another program's, and a bound is
/// not a prediction.
std::optional<double> process_bytes(const Job& job, const std::optional<Plan>& plan,
                                    const MeasuredMemory& measured) {
  const auto memory = plan ? plan->memory : std::nullopt;
  if (!job.external && memory && memory->device == "cpu" && memory->bounded_by.empty()) return memory->peak;
  const auto found = measured.find(job.spec.variant);
  return found == measured.end() ? std::nullopt : std::optional(found->second);
}
}  // namespace

bool knows_interleaving(const Job& job, bool launched) {
  if (job.external) return job.external->interleave;
  return job.spec.train.world_size == 1 || !launched;
}

bool is_wanted_whole(const Experiment& experiment, const RunSpec& spec) {
  return spec.save.every > 0 || spec.train.overfit > 0 || experiment.target_loss > 0;
}

bool can_be_cut(const Experiment& experiment, const Job& job, bool launched) {
  return knows_interleaving(job, launched) && !is_wanted_whole(experiment, job.spec);
}

void note_peak(const Job& job, const RunResult& result, MeasuredMemory& measured) {
  if (job.spec.purpose != Purpose::measure || !result.ok()) return;
  if (!result.memory.process || result.on_gpu) return;
  double& peak = measured[job.spec.variant];
  peak = std::max(peak, *result.memory.process);
}

std::vector<Job> chosen_for_interleaving(const std::vector<Job>& jobs, const Plans& plans,
                                         const MeasuredMemory& measured, double free_bytes,
                                         Interleave setting, bool launched) {
  std::vector<Job> chosen;
  double left = shared_memory(plans, free_bytes);
  const auto fits = [&](const Job& job) {
    const auto bytes = process_bytes(job, plans.at(static_cast<size_t>(job.spec.variant)), measured);
    if (!bytes) return false;
    const double needed = static_cast<double>(job.spec.train.world_size) * (*bytes + kOverhead);
    if (needed > left) return false;
    left -= needed;
    return true;
  };
  for (const auto& job : jobs) {
    if (setting == Interleave::off || !knows_interleaving(job, launched)) continue;
    // A run that saves states must be able to continue from them, which an interleaved run can't.
    if (setting == Interleave::automatic && job.spec.save.every > 0) continue;
    if (setting == Interleave::on || fits(job)) chosen.push_back(job);
  }
  return chosen.size() < 2 ? std::vector<Job>() : chosen;
}
}  // namespace optrush
