#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "experiment/experiment.h"
#include "launch/schedule/schedule.h"
#include "results/run_result.h"

namespace optrush {
/// Whether the controller can start the steps of a run one by one.
bool knows_interleaving(const Job&, bool launched);

/// Bytes that a process of a variant's runs held at its peak, on a CPU; of several ranks, the one that held
/// most.
using MeasuredPeaks = std::map<int64_t, double>;
/// Takes up what the result of a job says of it, where it is a measurement of a round.
void note_peak(const Job&, const RunResult&, MeasuredPeaks&);

/// Those of a round's jobs that are interleaved with each other; fewer than two: none. A program that does
/// not know of turns and a run with ranks on other machines (`launched`: there may be some) take no part.
/// Where the experiment leaves it open, a job takes part on a CPU as long as the peaks of all of them fit
/// into the memory that is free: the peak that its plan predicts, else, and of other programs always, the one
/// `measured` in the rounds before. `plans` by variant; `free_bytes` is the memory that is free now.
std::vector<Job> chosen_for_interleaving(const std::vector<Job>&, const Plans& plans,
                                         const MeasuredPeaks& measured, double free_bytes, Interleave,
                                         bool launched);
}  // namespace optrush
