#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "optrush/spec.h"
#include "rank_pool.h"

namespace optrush::testing {
/// A run of the real trainer on the ranks of a pool.
struct RanksRun {
  RunSpec spec;  ///< world_size is the number of ranks
  /// Gives each sequence another number of valid labels, from none to all. The number is the same on every
  /// mesh.
  bool holes = false;
  /// Adds parameters to the first block that are used in some steps only: a vector and a matrix that all
  /// ranks skip in every third step, and a vector that every second sequence uses.
  bool unused_parameters = false;
  /// The second block returns its input, and the third the output of the first.
  bool passes = false;
  /// The numbers that rank 1 adds to its copies of these parameters after step 3.
  std::map<std::string, double> drifts = {};
  /// The first block adds a running mean of its output on this rank, which is kept under this name (Kept);
  /// empty: it does not.
  std::string keeps = {};
  /// Slot and kind of an edit (slot_edits.h) by a plugin 'aaa'; "lse": weigh_by_lse(); empty: none.
  std::pair<std::string, std::string> edit = {};
  /// The controller ends the run after so many timed steps; 0: it does not.
  int64_t ends_after = 0;
  std::string save;  ///< folder for the state after the last step; empty: none
  std::string load;  ///< folder of a state to continue from; empty: from the start
};

/// The result of a run, from rank 0, and memory of each rank.
struct TrainedRanks {
  std::vector<double> losses, norms;
  Json result;  ///< as the worker writes it
  /// Peak bytes of tensors in a step, by rank. Gloo's thread holds a copy of a gathered tensor during the
  /// call, so the peak includes it in some runs only.
  std::vector<int64_t> peaks;
  /// Bytes of tensors at the start of each step and after the last one, by rank. No collective is pending
  /// then, so they are the same in every run. With ddp, Gloo's thread may still hold the indices of buckets
  /// that the reducer sent once: 4 bytes for each parameter.
  std::vector<std::vector<int64_t>> held;
};

/// Throws an Error with the errors of all failed ranks, and the code of the first original failure.
TrainedRanks train_on(RankPool&, const RanksRun&);

/// The same training on one process: the ranks' micro-batches one after the other.
RunSpec on_one_process(const RunSpec& spec, int64_t batch_ranks);

/// The largest difference between two saved states, relative to the largest value of each tensor, and the
/// tensor's name. Throws if an element is missing or saved twice, or if a tensor is in one state only.
std::pair<double, std::string> difference_of_states(const std::filesystem::path& a,
                                                    const std::filesystem::path& b);
/// The largest relative difference of two curves.
double difference(const std::vector<double>& a, const std::vector<double>& b);
}  // namespace optrush::testing
