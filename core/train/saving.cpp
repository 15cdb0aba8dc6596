#include "train/saving.h"

#include <chrono>

#include "base/seconds_since.h"
#include "distributed/rendezvous.h"
#include "io/state_folder.h"
#include "spec/state_files.h"
#include "train/evaluated_parameters.h"

namespace optrush {
bool Saving::due(int64_t done) const {
  const TrainSpec& train = session_.spec().train;
  return done % session_.spec().save.every == 0 || done == train.warmup + train.steps;
}

SavedPoint Saving::save(int64_t next_step, const DataPosition& read,
                        const std::function<Json(const SavedPoint& saved)>& record) const {
  const auto start = std::chrono::steady_clock::now();
  const Ranks& ranks = session_.ranks();
  const auto saved = [&](int64_t bytes) {
    return SavedPoint{
        .step = next_step, .seconds = seconds_since(start), .bytes = static_cast<double>(bytes)};
  };
  const auto keep_record = [&](int64_t bytes) {
    if (const Json kept = record(saved(bytes)); !kept.is_null())
      write_record(folder_, next_step, ranks.rank, kept);
  };
  {
    const EvaluatedParameters evaluated(session_);
    write_state_part(folder_, next_step, ranks.rank, state_to_save(session_, next_step, read));
  }
  if (ranks.rank != 0) keep_record(0);
  // A run may save into two folders after the same step.
  const std::string step = "saved/" + folder_.filename().string() + "/" + std::to_string(next_step);
  if (ranks.size > 1) gather_texts(*session_.store(), ranks, step, "");
  int64_t bytes = 0;
  if (ranks.rank == 0) {
    bytes = bytes_of_state(folder_, next_step, ranks.size);
    keep_record(bytes);
    commit_state(folder_, next_step, ranks.size);
  }
  // No rank continues before the state is valid, so a rank that fails later can't remove the previous state.
  if (ranks.size > 1) gather_texts(*session_.store(), ranks, step + "/counts", "");
  return saved(bytes);
}
}  // namespace optrush
