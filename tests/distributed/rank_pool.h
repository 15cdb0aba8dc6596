#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "distributed/ranks.h"
#include "optrush/json.h"

namespace optrush::testing {
/// What a rank does: its place, the arguments of the call, and what it answers.
using RankJob = std::function<Json(const Ranks&, const Json& arguments)>;
using RankJobs = std::map<std::string, RankJob>;

/// Processes that play the ranks of one run after the other, so that hundreds of runs on several ranks pay
/// for starting a process once. Each is this test program, started again, when a run first needs so many.
class RankPool {
 public:
  explicit RankPool(std::chrono::seconds longest = std::chrono::minutes(2)) : longest_(longest) {}
  ~RankPool();
  RankPool(const RankPool&) = delete;
  RankPool& operator=(const RankPool&) = delete;

  /// Runs the job on `size` ranks; their answers by rank. A rank that threw answers {"error": "..."}; one
  /// that died or took longer than `longest` ends the pool with an exception.
  std::vector<Json> run(const std::string& job, int64_t size, const Json& arguments);

 private:
  struct Rank {
    int pid = -1, socket = -1;
    std::string received;
  };
  void start_one();
  std::string answer_of(Rank&);
  std::vector<Rank> ranks_;
  std::chrono::milliseconds longest_;
};

/// The pool of this program's tests.
RankPool& pool();

/// Adds what the ranks of this program can do, at its start: `const bool kJobs = add_jobs({{"ring",
/// ring_job}});`
bool add_jobs(const RankJobs& jobs);

/// The main function of a test program with a pool: plays a rank where the pool started it, else runs the
/// tests.
int main_of_ranks(int argc, char** argv);

/// A port of the loopback that nobody listens on.
uint16_t free_port();
}  // namespace optrush::testing
