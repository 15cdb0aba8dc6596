#pragma once
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launch/ranks/control.h"
#include "launch/run/channel.h"

namespace optrush {
/// Rank 0's view of the agents of a job (run_rank_agent()), each of which starts the worker of its rank on
/// request. Nothing here blocks, except join() and the destructor, for a limited time.
class RemoteRanks {
 public:
  /// Throws an Error if every port of the job is in use.
  RemoteRanks(const Launched& here, const std::string& script_sha256, JobSecret secret);
  /// Dismisses the agents with exit code 1, unless dismiss() was called.
  ~RemoteRanks();
  RemoteRanks(const RemoteRanks&) = delete;
  RemoteRanks& operator=(const RemoteRanks&) = delete;

  /// Waits until every rank has said hello or was refused, the time is over, or a signal arrives.
  void join(double limit_s, Interrupts&);

  /// Ends the agents with the exit code of this process, so that launchers on their machines see it. Waits
  /// shortly for them.
  void dismiss(const ClosingMessage&);

  /// Reads messages. If a process was asked to stop, the whole job stops.
  void listen(Interrupts&);

  const Launched& here() const { return here_; }
  /// The reason why a run with `ranks` ranks is impossible: the missing ranks with their reasons; "" if it is
  /// possible.
  std::string missing(int64_t ranks);
  /// Starts a rank; the files of its run are below `run_folder`. Throws an Error if the agent is missing.
  std::unique_ptr<RunningRank> start(int64_t rank, const Job&, const std::string& store,
                                     const std::filesystem::path& run_folder);
  /// The number of a run's ranks on the machine of this rank, which has joined.
  int64_t local_size(int64_t rank, int64_t ranks) const;
  /// The machines of the job in order of their lowest ranks: [{"name", "ranks", "cpu", "gpus"}], for
  /// processes that have joined. gpus is "" if there are none.
  Json hosts() const;
  /// Notes for the user that were not shown yet.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  friend class RemoteRank;
  using Clock = std::chrono::steady_clock;
  /// A rank that has joined, or is missing for a known reason.
  struct Peer {
    Channel channel{Descriptor(), 0};
    Hello hello = {};
    int64_t run = 0;                  ///< the last run that it was asked to start
    std::optional<RankEnd> end = {};  ///< of that run
    Seen seen = {};                   ///< of that run
    std::string lost = {};            ///< why it is missing; "": it has joined
    bool has_joined() const { return lost.empty(); }
    void drop(const std::string& why);
  };
  struct Pending {
    Channel channel;
    Clock::time_point since;
  };

  /// Accepts connections and reads messages.
  void pump();
  void accept_pending();
  void admit(Pending&);
  void handle(int64_t rank, Peer&, const Json& message);
  std::string why_missing(int64_t rank) const;  ///< "": it has joined
  const Hello* hello_of_rank(int64_t rank) const;

  Launched here_;
  Hello own_;
  JobSecret secret_;
  Descriptor listener_;
  std::vector<Pending> pending_;  ///< connections without a hello, the oldest first
  std::map<int64_t, Peer> peers_;
  std::string foreign_;    ///< why the last process of another job, or with another secret, was refused
  int asked_to_stop_ = 0;  ///< the signal that a process received
  std::string who_was_asked_;
  bool dismissed_ = false;
  std::vector<std::string> notes_;
  int64_t runs_ = 0;
  Clock::time_point pumped_;
};

/// The agent of a rank other than 0: joins rank 0, and starts workers of its rank on request until rank 0
/// ends. Returns the exit code and, if it is not 0, prints the reason to stderr. It is rank 0's code, so that
/// a launcher on this machine sees the end of the job, or 128 and the signal. A signal is reported to rank 0,
/// which stops the job; a second signal or a missing answer ends this process. Throws an Error if rank 0 is
/// not found, refuses this process, or is lost. No worker is left behind.
int run_rank_agent(const Launched&, const std::string& script_sha256, const std::filesystem::path& worker,
                   const JobSecret&);
}  // namespace optrush
