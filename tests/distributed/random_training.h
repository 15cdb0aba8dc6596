#pragma once
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "exactness.h"

namespace optrush::testing {
/// Random choices from a seed.
class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}
  template <class T>
  T one_of(const std::vector<T>& choices) {
    return choices[std::uniform_int_distribution<size_t>(0, choices.size() - 1)(random_)];
  }
  bool sometimes() { return one_of<int>({0, 1}) == 1; }

 private:
  std::mt19937_64 random_;
};

/// Draws ddp or a stage of fsdp.
PluginUse some_data_parallelism(Draws&);
/// Adds a random subset of single-device plugins.
void add_some_plugins(Draws&, std::vector<PluginUse>&);

struct RandomTraining {
  RunSpec spec;
  int64_t batch_ranks = 1;  ///< data-parallel ranks
};

/// For each seed from 0, expects six steps of the drawn run to equal one process to 1e-9 in double. A step
/// has at least three sequences, because with fewer all labels might be masked.
void expect_equal_for_seeds(RankPool&, uint64_t seeds,
                            const std::function<RandomTraining(Draws&, uint64_t seed)>& draw);

/// The error of a run before it trains, for is_error(). Empty if it trains.
std::string refusal_of(RankPool&, const RunSpec&);
}  // namespace optrush::testing
