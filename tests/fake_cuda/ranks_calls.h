// The calls of all ranks of all communicators, from the shared log. Checks that they match and tracks which
// are done. On a GPU, NCCL's kernels wait for each other. Here a call is done when each rank has made it and
// all work before it is done.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shared_log.h"

namespace fake_cuda {
struct Call {
  std::string kind;  ///< "AllReduce"
  uint64_t count = 0;
  std::string type, reduction = "-";
  int peer = -1;  ///< the peer of a send or receive, or the root

  std::string text() const;
  bool between_two() const { return kind == "Send" || kind == "Recv"; }
  bool operator==(const Call&) const = default;
};

/// The sent bytes if they are few and known (a size, not a gradient), and the address for the received bytes.
struct Values {
  std::string sent;  ///< bytes; empty: unknown
  uint64_t arrives_at = 0;
};

/// The id of a call. All processes have the same ids.
using CallId = size_t;

class RanksCalls {
 public:
  static RanksCalls& get();

  /// A rank joins a communicator.
  void join(const std::string& communicator, int size, int rank, int device);
  bool all_have_come(const std::string& communicator);
  /// A rank joins a communicator's `number`-th split with a color and a key.
  void split(const std::string& communicator, uint64_t number, int rank, int color, int key);
  bool all_said_their_split(const std::string& communicator, uint64_t number);
  /// The ranks of the color in the new order.
  std::vector<int> parts_of_split(const std::string& communicator, uint64_t number, int color);

  /// Adds a call. Compares it with the calls of other ranks, and checks the order for deadlocks.
  CallId call(const std::string& communicator, int rank, const Call& call, const std::vector<CallId>& after,
              Values values = {});
  /// After FAKE_CUDA_NCCL_SECONDS, missing ranks are a fault and the call counts as done.
  bool is_done(CallId id);
  /// Counts the communicator's calls as done in this process.
  void abort(const std::string& communicator);
  void forget();  ///< counts all calls as done, so that a test's unfinished calls are no fault
  bool has_lost_a_rank(const std::string& communicator);  ///< a process of a rank has ended
  std::string missing_ranks(const std::string& communicator);
  /// Reports unfinished calls as faults when the process ends.
  void end();

 private:
  struct Member {
    int process = 0, device = 0;
    std::string host;
  };
  struct Communicator {
    int size = 0;
    std::map<int, Member> members;
    std::map<int, std::vector<CallId>> collectives;                      // by rank
    std::map<std::pair<int, int>, std::vector<CallId>> sends, receives;  // by (from, to)
    std::map<std::pair<uint64_t, int>, std::pair<int, int>> splits;      // color and key by (split, rank)
    bool given_up = false, aborted = false;
  };
  struct Issued {
    std::string communicator;
    int rank = 0;
    Call call;
    size_t number = 0;  // position in the rank's sequence
    std::vector<CallId> after;
    Values values;
    bool done = false;
    std::chrono::steady_clock::time_point since;
  };

  RanksCalls();
  void read_line(const std::string& line, bool own);
  void add_member(std::istream& text, bool own);
  void add_call(std::istream& text, bool own);
  void compare(CallId id);
  void find_deadlock(CallId id);
  bool settle(CallId id);
  void deliver(CallId id, const std::vector<CallId>& meeting) const;
  /// The calls of all ranks that belong to this one, and whether all are made.
  std::pair<std::vector<CallId>, bool> meeting(const Issued& issued) const;
  std::string described(CallId id) const;
  void give_up(const std::string& communicator);
  void say_given_up();
  bool has_ended(int process) const;
  bool is_late(std::chrono::steady_clock::time_point since) const;

  std::map<std::string, Communicator> communicators_;
  std::vector<Issued> calls_;
  std::set<int> ended_;
  std::vector<std::string> given_up_;  // communicators that are not yet in the log
  SharedLog log_;
};
/// Called at the end of a process, and when its faults are reset. No effect if it has not called NCCL.
void end_calls_of_ranks();
void forget_calls_of_ranks();
}  // namespace fake_cuda
