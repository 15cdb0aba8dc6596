// The calls of all ranks of all communicators, as the shared log tells them: whether they fit together, and
// which are done. Kernels of NCCL wait for each other on a GPU; here a call is done when each rank has made
// its own and all work before it is done.
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
  int peer = -1;  ///< of a send or receive, or the root

  std::string text() const;
  bool between_two() const { return kind == "Send" || kind == "Recv"; }
  bool operator==(const Call&) const = default;
};

/// What a rank sends where its memory is small and known (a size, not a gradient), and where what it gets
/// belongs.
struct Values {
  std::string sent;  ///< bytes; empty: unknown
  uint64_t arrives_at = 0;
};

/// Ids of calls are the same in all processes.
using CallId = size_t;

class RanksCalls {
 public:
  static RanksCalls& get();

  /// A rank has come to a communicator.
  void join(const std::string& communicator, int size, int rank, int device);
  bool all_have_come(const std::string& communicator);
  /// A rank says what part it wants of a communicator's `number`-th split.
  void split(const std::string& communicator, uint64_t number, int rank, int color, int key);
  bool all_said_their_split(const std::string& communicator, uint64_t number);
  /// Ranks of the color in the new order.
  std::vector<int> parts_of_split(const std::string& communicator, uint64_t number, int color);

  /// Compared with what others called, then with all orders that have been seen.
  CallId call(const std::string& communicator, int rank, const Call& call, const std::vector<CallId>& after,
              Values values = {});
  /// Past FAKE_CUDA_NCCL_SECONDS the missing ranks are a fault, and the call counts as done.
  bool is_done(CallId id);
  /// In this process nothing waits for its calls any more.
  void abort(const std::string& communicator);
  void forget();  ///< all of them are done: what a test left on purpose is no fault
  bool has_lost_a_rank(const std::string& communicator);  ///< a process has ended, by itself or not
  std::string missing_ranks(const std::string& communicator);
  /// The process ends: what no rank will join any more is a fault.
  void end();

 private:
  struct Member {
    int process = 0, device = 0;
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
    size_t number = 0;  // in its sequence
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
  /// Calls that meet in one kernel's work; whether they are all there.
  std::pair<std::vector<CallId>, bool> meeting(const Issued& issued) const;
  std::string described(CallId id) const;
  void give_up(const std::string& communicator);
  void say_given_up();
  bool has_ended(int process) const;
  bool is_late(std::chrono::steady_clock::time_point since) const;

  std::map<std::string, Communicator> communicators_;
  std::vector<Issued> calls_;
  std::set<int> ended_;
  std::vector<std::string> given_up_;  // what the log does not say yet
  SharedLog log_;
};
/// At the end of a process, and when its faults are forgotten; nothing where it has not called NCCL.
void end_calls_of_ranks();
void forget_calls_of_ranks();
}  // namespace fake_cuda
