#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "distributed/ranks.h"
#include "optrush/json.h"

namespace optrush::testing {
/// The function of a rank: takes its place and the arguments of the call, returns the answer.
using RankJob = std::function<Json(const Ranks&, const Json& arguments)>;
using RankJobs = std::map<std::string, RankJob>;

/// A pool of processes for the ranks of runs, so that hundreds of runs share the cost of starting processes.
/// Each process is another instance of this test program. It starts when a run first needs it.
class RankPool {
 public:
  explicit RankPool(std::chrono::seconds longest = std::chrono::minutes(2)) : longest_(longest) {}
  ~RankPool();
  RankPool(const RankPool&) = delete;
  RankPool& operator=(const RankPool&) = delete;

  /// Runs the job on `size` ranks and returns their answers by rank. A rank that throws answers {"error":
  /// "..."}. A rank that dies or takes longer than `longest` ends the pool with an exception.
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

/// The pool of this program.
RankPool& pool();

/// Registers jobs at the start of the program: `const bool kJobs = add_jobs({{"ring", ring_job}});`
bool add_jobs(const RankJobs& jobs);

/// The main function of a test program with a pool. Serves as a rank if the pool started it, else runs the
/// tests.
int main_of_ranks(int argc, char** argv);

/// A free port of the loopback interface.
uint16_t free_port();
}  // namespace optrush::testing
