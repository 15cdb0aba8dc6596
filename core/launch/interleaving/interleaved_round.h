#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "launch/interleaving/interleaving_socket.h"
#include "launch/run/live_run.h"
#include "launch/runs.h"
#include "launch/schedule/schedule.h"
#include "launch/schedule/time_limit.h"

namespace optrush {
/// Runs a round whose processes exist at the same time and whose steps alternate, so that they are measured
/// seconds apart (docs/internals/interleaving.md). Only one process works at a time.
class InterleavedRound {
 public:
  struct Terms {
    std::string id;  ///< is in the results of all runs of the group; "": a run alone
    /// The number of timed steps of the group, asked when every run is ready for its first. The maximum means
    /// that no run is shortened.
    std::function<int64_t(const std::map<int64_t, RunCost>&)> steps;
    bool counts_when_cut = false;      ///< whether a group that a signal shortened counts
    std::optional<Job> prepared = {};  ///< the next run, for which a worker opens the GPU meanwhile
  };
  InterleavedRound(const std::vector<Job>&, Terms, Runs&);

  /// Starts the runs one after another, each up to its first timed step, and then interleaves their steps.
  /// Returns the jobs that were out of memory beside the others; alone they may have enough. A signal
  /// shortens the round to the steps that all runs have made, if these are enough to count.
  std::vector<Job> conduct();

 private:
  struct Member {
    Job job;
    InterleavingSocket socket;
    std::filesystem::path path;      ///< path of the socket
    std::unique_ptr<LiveRun> run{};  ///< null: not started yet, or ended
    double held_s = 0;               ///< time with the turn
    int64_t steps = 0;               ///< steps that it had turns for
    std::string cut{};               ///< why it ends before its last step
  };

  /// Waits until the member has passed the turn on or ended. Returns false after a signal.
  bool hold(Member&);
  std::unique_ptr<LiveRun> start(const Member&);
  void look_after(Member&);
  void conclude(Member&, RunResult);
  int64_t limit();
  bool cut();
  void end_all();
  std::vector<Member*> alive();
  int64_t steps_of_a_turn();

  Terms terms_;
  Runs& runs_;
  Interrupts& interrupts_;
  const TemporaryFolder sockets_;
  std::vector<Member> members_;
  std::vector<Job> again_;
};

/// The number of steps of a turn, equal for all runs: the shortest turn lasts at least a quarter of a second,
/// but `steps` give at least four turns. `seconds`: of a step of each run; 0: not known.
int64_t steps_of_a_turn(const std::vector<double>& seconds, int64_t steps);

/// The order in which a round, counted from 0, starts its runs: round 0 that of the script, later even rounds
/// a shuffled one, the same in every experiment, odd rounds the reverse of the round before. So an effect of
/// the place cancels after two rounds.
std::vector<size_t> start_order(size_t members, int64_t round);

/// The order of turns in a cycle: each cycle starts one member later than the one before and wraps around.
std::vector<size_t> turn_order(size_t members, size_t cycle);
}  // namespace optrush
