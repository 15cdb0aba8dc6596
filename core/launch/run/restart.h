#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "launch/schedule/schedule.h"
#include "results/run_result.h"

namespace optrush {
/// A fault after which a run started again.
struct Restart {
  Status status = Status::crashed;
  std::string reason;
  std::optional<int64_t> rank = {};  ///< of several, the one that failed first
  int64_t made = 0;                  ///< steps of the run before the fault
  int64_t kept = 0;                  ///< of them, those that the saved state has
};

/// Whether a job keeps the state that it may go on from.
bool saves_state(const Job&);
/// Whether something ended the run that the same training need not meet again: a process was lost or crashed,
/// or a rank hung. What a run says of itself (a loss that is not finite, no memory) is none, nor is the end
/// of its time.
bool is_fault(const RunResult&);
/// For the report: how many, which steps were made again, and why.
std::string note_of(const std::vector<Restart>&);
/// A UsageError where an experiment asks for restarts and no run of it can go on from a state.
void check_restarts(const Expanded&);
}  // namespace optrush
