#pragma once
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launch/run/channel.h"
#include "launch/run/control.h"

namespace optrush {
/// The other processes of a job, as rank 0 sees them: each starts the workers of its own rank when it is told
/// to. Nothing here blocks, except join() and the destructor for a bounded time.
class Followers {
 public:
  /// Listens for them. Throws an Error if every port of the job is in use.
  Followers(const Launched& here, const std::string& script_sha256);
  /// Dismisses them with exit code 1, unless dismiss() was called.
  ~Followers();
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  /// Waits until every rank has said hello or was refused, until the time is over or a signal comes.
  void join(double limit_s, Interrupts&);

  /// Tells them that nothing more will come, and to end with this exit code, which this process is about to
  /// have: a launcher on their machines learns it from them. Waits for a moment until they have gone.
  void dismiss(const Farewell&);

  /// Reads their messages. If one of them was asked to stop, the whole job stops.
  void listen(Interrupts&);

  const Launched& here() const { return here_; }
  /// Why a run of so many ranks is impossible: the missing ranks and the reasons; "" if it is possible.
  std::string missing(int64_t ranks);
  /// Has one of them start its part of a run, whose files are below `run_folder`. An Error where it is
  /// missing.
  std::unique_ptr<RunningRank> start(int64_t rank, const Job&, const std::string& store,
                                     const std::filesystem::path& run_folder);
  /// How many of the ranks of a run are on the machine of one of them, which has joined.
  int64_t local_size(int64_t rank, int64_t ranks) const;
  /// The machines of the job, in the order of their lowest ranks: [{"name", "ranks", "cpu", "gpus"}], as far
  /// as processes have joined. gpus is "" where there are none.
  Json hosts() const;
  /// Notes for the user that were not yet shown.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  friend class FollowingRank;
  using Clock = std::chrono::steady_clock;
  struct Follower {
    Channel channel;
    Hello hello;
    int64_t run = 0;                  ///< the last one that it was asked to start
    std::optional<RankEnd> end = {};  ///< of that
    Seen seen = {};                   ///< of that
    std::string left = {};            ///< why it has left; "": it has not
  };
  struct Gone {
    std::string why;
    int64_t run = 0;  ///< the last one that it was asked to start
    Seen seen = {};   ///< of that
  };
  struct Stranger {
    Channel channel;
    Clock::time_point since;
  };

  /// Takes connections and messages.
  void pump();
  void take(Stranger&);
  void take(int64_t rank, Follower&, const Json& message);
  void drop(int64_t rank, const std::string& why);
  std::string why_missing(int64_t rank) const;
  const Hello* hello_of_rank(int64_t rank) const;

  Launched here_;
  Hello own_;
  Descriptor listener_;
  std::vector<Stranger> strangers_;  ///< that have not said hello
  std::map<int64_t, Follower> followers_;
  std::map<int64_t, Gone> gone_;  ///< ranks that are missing for a reason that is known
  std::string foreign_;           ///< what was said to the last process of another job
  int asked_to_stop_ = 0;         ///< the signal that one of them received
  std::string who_was_asked_;
  bool dismissed_ = false;
  std::vector<std::string> notes_;
  int64_t runs_ = 0;
  Clock::time_point pumped_;
};
}  // namespace optrush
