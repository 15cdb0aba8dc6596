#include "launch/turn_choice.h"

#include "report/planned_memory.h"

namespace optrush {
namespace {
/// That a process holds beside what its plan foresees: LibTorch itself, threads, buffers.
constexpr double kOverhead = 0.5e9;
/// Part of the free memory that is given away.
constexpr double kShareOfMemory = 0.8;

bool knows_turns(const Job& job, bool launched) {
  if (job.external) return job.external->turns;
  return job.spec.train.world_size == 1 || !launched;
}

/// Takes what it needs from the memory that is left, where that is enough; with what the plans say.
class Room {
 public:
  bool takes(const Json& plan, int64_t ranks) {
    const auto memory = planned_memory(plan);
    if (!memory || !memory->bounded_by.empty() || memory->device != "cpu") return false;
    const double need = static_cast<double>(ranks) * (memory->peak + kOverhead);
    const double room = kShareOfMemory * memory->available.value_or(0);
    if (taken_ + need > room) return false;
    taken_ += need;
    return true;
  }

 private:
  double taken_ = 0;
};
}  // namespace

std::vector<Job> chosen_for_turns(const std::vector<Job>& jobs, const std::vector<Json>& plans,
                                  InTurns setting, bool launched) {
  std::vector<Job> chosen;
  Room room;
  for (const auto& job : jobs) {
    if (setting == InTurns::off || !knows_turns(job, launched)) continue;
    // Who saves states wants to go on from them, which a group in turns can't.
    if (setting == InTurns::automatic && job.spec.save.every > 0) continue;
    const Json& plan = plans.at(static_cast<size_t>(job.spec.variant));
    if (setting == InTurns::on || room.takes(plan, job.spec.train.world_size)) chosen.push_back(job);
  }
  return chosen.size() < 2 ? std::vector<Job>() : chosen;
}
}  // namespace optrush
