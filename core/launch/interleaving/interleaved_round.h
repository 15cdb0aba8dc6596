#pragma once
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/interleaving/interleaving_socket.h"
#include "launch/run/live_run.h"
#include "launch/schedule/pace.h"
#include "launch/schedule/schedule.h"

namespace optrush {
/// Runs of one round whose processes exist at the same time and whose steps alternate, so that they are
/// measured seconds apart (docs/internals/interleaving.md). Only one of them works at any time.
class InterleavedRound {
 public:
  /// The controller's part of a round.
  class Host {
   public:
    virtual ~Host() = default;
    /// Starts a run whose processes connect to `socket` for their turns; null if a signal came first.
    virtual std::unique_ptr<LiveRun> start(const Job&, const std::filesystem::path& socket) = 0;
    /// The turn passes to this run.
    virtual void has_turn(const Job&) = 0;
    /// Called a few times per second.
    virtual void tick() = 0;
    /// A run has ended, with a result that may say more than the stored one.
    virtual void ended(const Job&, const RunResult&) = 0;
    /// A run has ended without a valid result: by a signal, or because the others held the memory.
    virtual void abandoned(const Job&) = 0;
    /// Every run is ready for its first timed step: after how many the round ends, whatever the specs ask
    /// for. By variant; the most that there are: none is cut.
    virtual int64_t steps_of_round(const std::map<int64_t, RunCost>&) = 0;
    /// Whether what a signal leaves of a round counts.
    virtual bool counts_when_cut() const = 0;
  };

  /// `id` is in the results of all runs of the group; `folder` is for the sockets.
  InterleavedRound(const std::vector<Job>&, std::string id, const std::filesystem::path& folder, Host&,
                   Interrupts&);

  /// Starts the runs one after the other, each up to its first timed step, and then interleaves their steps
  /// to their ends. Those that were out of memory beside the others are returned: alone they may have enough.
  /// A signal cuts the round to the steps that all of its runs have made, where these are enough to count.
  std::vector<Job> conduct();

 private:
  struct Member {
    Job job;
    InterleavingSocket socket;
    std::filesystem::path path;      ///< of the socket
    std::unique_ptr<LiveRun> run{};  ///< null: not started yet, or ended
    double held_s = 0;               ///< time with the turn
    int64_t steps = 0;               ///< that it has had turns for
    std::string cut{};               ///< why it ends before its last step
  };

  /// Until the member has handed the turn on, or has ended. False where a signal came.
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

/// Steps of a turn, the same for all runs: so many that the shortest one lasts a quarter of a second, but no
/// more than leave `steps` to at least four turns. `seconds`: of a step of each run; 0: not known.
int64_t steps_of_a_turn(const std::vector<double>& seconds, int64_t steps);

/// The order in which a round, counted from 0, starts its runs. Round 0 uses the order of the script, every
/// even round after it a separate order, the same in every experiment, and odd rounds the reverse of the
/// round before. So an effect of the place in the order cancels after two rounds.
std::vector<size_t> start_order(size_t members, int64_t round);

/// The order of turns: of `members`, each cycle begins one later than the last, and ends with those that it
/// left out.
std::vector<size_t> turn_order(size_t members, size_t cycle);
}  // namespace optrush
