#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launch/interleaving/interleaving_socket.h"
#include "launch/run/live_run.h"
#include "launch/schedule/pace.h"
#include "launch/schedule/schedule.h"

namespace optrush {
/// Runs a round whose processes exist at the same time and whose steps alternate, so that they are measured
/// seconds apart (docs/internals/interleaving.md). Only one process works at a time.
class InterleavedRound {
 public:
  /// The controller's side of a round.
  class Host {
   public:
    virtual ~Host() = default;
    /// Starts a run whose processes connect to `socket` for their turns; null if a signal came first.
    virtual std::unique_ptr<LiveRun> start(const Job&, const std::filesystem::path& socket) = 0;
    /// The turn passes to this run.
    virtual void has_turn(const Job&) = 0;
    /// Called a few times per second.
    virtual void tick() = 0;
    /// A run has ended. The result may contain more than the stored one.
    virtual void ended(const Job&, const RunResult&) = 0;
    /// A run has ended without a valid result, by a signal or because the others held the memory.
    virtual void abandoned(const Job&) = 0;
    /// Called when every run is ready for its first timed step. Returns the number of timed steps of the
    /// round, independent of the specs. The maximum means that no run is shortened.
    virtual int64_t steps_of_round(const std::map<int64_t, RunCost>&) = 0;
    /// Whether a run between two steps has trained enough although it has steps left.
    virtual bool has_enough(const Job&) = 0;
    /// Whether has_enough() must be asked, so a run that is alone passes its turn on as well.
    virtual bool may_have_enough() const = 0;
    /// Whether a round that a signal shortened counts.
    virtual bool counts_when_cut() const = 0;
  };

  /// `id` is in the results of all runs of the group; `folder` is for the sockets.
  InterleavedRound(const std::vector<Job>&, std::string id, const std::filesystem::path& folder, Host&,
                   Interrupts&);

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
  void look_after(Member&);
  void conclude(Member&, RunResult);
  int64_t limit();
  void interrupted();
  bool cut();
  void end_all();
  std::vector<Member*> alive();
  int64_t steps_of_a_turn();

  std::string id_;
  Host& host_;
  Interrupts& interrupts_;
  std::vector<Member> members_;
  std::vector<Job> again_;
};

/// The number of steps of a turn, equal for all runs: the shortest turn lasts at least a quarter of a second,
/// but `steps` give at least four turns. `seconds`: of a step of each run; 0: not known.
int64_t steps_of_a_turn(const std::vector<double>& seconds, int64_t steps);

/// The order in which a round, counted from 0, starts its runs. Round 0 uses the order of the script, every
/// even round after it a separate order, the same in every experiment, and odd rounds the reverse of the
/// round before. So an effect of the place in the order cancels after two rounds.
std::vector<size_t> start_order(size_t members, int64_t round);

/// The order of turns in a cycle: each cycle starts one member later than the one before and wraps around.
std::vector<size_t> turn_order(size_t members, size_t cycle);
}  // namespace optrush
