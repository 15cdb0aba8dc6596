#include "launch/interleaving/loss_race.h"

#include <algorithm>

#include "analysis/time_to_loss.h"

namespace optrush {
void LossRace::begin_round() {
  first_s_ = HUGE_VAL;
  runs_.clear();
}

void LossRace::ended(const Job& job, const RunResult& result) {
  if (!on() || job.spec.purpose != Purpose::measure || !result.ok()) return;
  if (const auto time = time_to_loss(result, target_); time && time->seconds)
    first_s_ = std::min(first_s_, *time->seconds);
}

bool LossRace::is_over(const Job& job, const std::filesystem::path& metrics) {
  if (!on()) return false;
  const RunState& run = runs_.try_emplace(job.id, metrics, job.external.has_value()).first->second.update();
  // A run that validates is judged by its validations, as in the report.
  const bool validates = job.spec.validate.every > 0 || run.lowest_validation;
  const auto& reached = validates ? run.lowest_validation : run.lowest_mean;
  if (!reached || *reached > target_) return run.seconds > behind_ * first_s_;
  first_s_ = std::min(first_s_, run.seconds);
  return true;
}
}  // namespace optrush
