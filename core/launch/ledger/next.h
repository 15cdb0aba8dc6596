#pragma once
#include <optional>
#include <variant>
#include <vector>

#include "analysis/analysis.h"
#include "launch/ledger/ledger.h"

namespace optrush {
// What a controller does next.

/// Describes the machine and compares it with the one of earlier starts.
struct Inspect {};
/// Plans every variant.
struct MakePlans {};
/// Begins a round, or ends the rounds if `round.over`.
struct BeginRound {
  Round round;
};
/// Probes the machine's noise after this number of rounds.
struct Probe {
  int64_t rounds = 0;
};
/// Runs these jobs of the round step by step with each other.
struct RunGroup {
  std::vector<Job> jobs;
  bool counts_when_cut = false;  ///< whether it counts if a signal shortens it
};
/// Runs a job alone.
struct RunOne {
  Job job;
  bool in_turns = false;  ///< as a group of one, so that its first timed step and its end can be chosen
  std::optional<Job> prepared = {};  ///< the next run, for which a worker opens the GPU meanwhile
};
struct EndRound {};
/// Makes the gate's additional runs, row by row: gate_jobs().
struct CheckGate {
  bool last = false;  ///< no later round shows whether a reference repeats its bits
};
struct Stop {};

using Action =
    std::variant<Inspect, MakePlans, BeginRound, Probe, RunGroup, RunOne, EndRound, CheckGate, Stop>;

struct Moment {
  double seconds = 0;     ///< since the start of the time limit
  double free_bytes = 0;  ///< free memory of the machine, when a round begins
};

/// Returns the next action. Pure: it reads no file and no clock, and changes nothing.
///
/// Inspect, MakePlans; then a round (Probe before the first; RunGroup, RunOne ..., Probe, EndRound), the gate
/// after the first round, the other rounds, the gate, the base once more, Stop. Stored runs have no action:
/// they are accepted when their round begins.
Action next(const Ledger&, const RunRequest&, const Moment&);

/// The additional runs of the gate that a row needs and that are not made. Rows are looked at in their order,
/// because a row that failed is not a reference: `usable` has the plans without such rows.
std::vector<Job> gate_jobs(const Ledger&, const Row&, const Plans& usable, bool last);

/// The jobs of a round that are interleaved; fewer than two: none. Programs without turns and runs with ranks
/// on other machines (`launched`: they may exist) are not. With Interleave::automatic, a job takes part on a
/// CPU as long as the peaks of all jobs fit into the free memory: the predicted peak, or the one `measured`
/// in earlier rounds if there is no prediction or another program trains. `plans`: by variant.
std::vector<Job> chosen_for_interleaving(const std::vector<Job>&, const Plans& plans,
                                         const MeasuredMemory& measured, double free_bytes, Interleave,
                                         bool launched);
}  // namespace optrush
