#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "experiment/experiment.h"
#include "launch/schedule/schedule.h"
#include "results/run_result.h"

namespace optrush {
/// Whether the controller can control the steps of a job individually.
bool knows_interleaving(const Job&, bool launched);

/// Whether a run is trained for its result, so that it makes all of its steps.
bool is_wanted_whole(const Experiment&, const RunSpec&);
/// Whether a run may end before its last step.
bool can_be_cut(const Experiment&, const Job&, bool launched);

/// Peak bytes of a process by variant, on a CPU; for several ranks, of the largest.
using MeasuredMemory = std::map<int64_t, double>;
/// Records the peak of a job's result, if it is a measurement of a round.
void note_peak(const Job&, const RunResult&, MeasuredMemory&);

/// The jobs of a round that are interleaved; fewer than two: none. Programs without turns and runs with ranks
/// on other machines (`launched`: they may exist) are not. With Interleave::automatic, a job takes part on a
/// CPU as long as the peaks of all jobs fit into the free memory: the predicted peak, or the one `measured`
/// in earlier rounds if there is no prediction or another program trains. `plans`: by variant.
std::vector<Job> chosen_for_interleaving(const std::vector<Job>&, const Plans& plans,
                                         const MeasuredMemory& measured, double free_bytes, Interleave,
                                         bool launched);
}  // namespace optrush
