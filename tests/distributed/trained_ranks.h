#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "optrush/spec.h"
#include "rank_pool.h"

namespace optrush::testing {
/// One run of the real trainer on some ranks of a pool.
struct RanksRun {
  RunSpec spec;  ///< world_size says on how many
  /// Leaves each sequence a number of valid labels of its own, from none to all of them, the same on every
  /// mesh.
  bool holes = false;
  /// Adds parameters to the first block that take part in some steps only: a vector and a matrix that rest
  /// on all ranks in every third step, and a vector that every second sequence uses.
  bool rests = false;
  /// The second block returns its input itself, and the third the output of the first.
  bool passes = false;
  /// After step 3 rank 1 adds a little to its copy of a norm's weight.
  bool drifts = false;
  std::string save;  ///< folder for the state after the last step; empty: none
  std::string load;  ///< folder of a state to go on from; empty: from the start
};

/// What rank 0 tells of a run, and the state that all ranks saved together.
struct TrainedRanks {
  std::vector<double> losses, norms;
  Json result;  ///< of rank 0, as the worker would write it
  /// The most bytes of tensors in a step, by rank. Gloo's thread holds a copy of what it gathers for as long
  /// as the call lasts, so a peak may have it in one run and not in the next.
  std::vector<int64_t> peaks;
  /// Bytes of tensors where each step begins and after the last one, by rank. No collective is on its way
  /// then, so they are the same in every run. Of ddp, Gloo's thread may still have the indices of buckets
  /// that the reducer sent once: 4 bytes for each parameter.
  std::vector<std::vector<int64_t>> held;
};

/// An Error has the errors of all ranks that failed, and the code of the first that failed by itself.
TrainedRanks train_on(RankPool&, const RanksRun&);

/// The same training on one process: the ranks' micro-batches one after the other.
RunSpec on_one_process(const RunSpec& spec, int64_t batch_ranks);

/// The largest difference between two saved states, relative to the largest value of each tensor, and of
/// which; an exception where an element was saved never or twice, or a tensor is in one of them only.
std::pair<double, std::string> difference_of_states(const std::filesystem::path& a,
                                                    const std::filesystem::path& b);
/// The largest relative difference of two curves.
double difference(const std::vector<double>& a, const std::vector<double>& b);
}  // namespace optrush::testing
