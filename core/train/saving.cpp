#include "train/saving.h"

#include <chrono>

#include "distributed/rendezvous.h"
#include "io/state_folder.h"
#include "train/state.h"

namespace optrush {
bool Saving::due(int64_t done) const {
  const TrainSpec& train = session_.spec().train;
  return done % session_.spec().save.every == 0 || done == train.warmup + train.steps;
}

Json Saving::save(int64_t next_step) const {
  const auto start = std::chrono::steady_clock::now();
  const Ranks& ranks = session_.ranks();
  write_state_part(folder_, next_step, ranks.rank, state_to_save(session_, next_step));
  const std::string step = "saved/" + std::to_string(next_step);
  if (ranks.size > 1) gather_texts(*session_.store(), ranks, step, "");
  const int64_t bytes = ranks.rank == 0 ? commit_state(folder_, next_step, ranks.size) : 0;
  // Nobody goes on before it counts: a rank that fails later can't take the state before it away.
  if (ranks.size > 1) gather_texts(*session_.store(), ranks, step + "/counts", "");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return {{"step", next_step}, {"seconds", seconds.count()}, {"bytes", bytes}};
}
}  // namespace optrush
