#pragma once
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "exactness.h"

namespace optrush::testing {
/// Choices that follow from a seed.
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

/// ddp, or a stage of fsdp.
PluginUse some_data_parallelism(Draws&);
/// Plugins of one device, each of them or not.
void add_some_plugins(Draws&, std::vector<PluginUse>&);

struct RandomTraining {
  RunSpec spec;
  int64_t batch_ranks = 1;  ///< that have other sequences
};

/// For each seed from 0 on, six steps of what `draw` gives equal one process to 1e-9 in double. A step has at
/// least three sequences: of fewer, none might have a label that counts.
void expect_equal_for_seeds(RankPool&, uint64_t seeds,
                            const std::function<RandomTraining(Draws&, uint64_t seed)>& draw);

/// Why a run ends before it trains, for is_error(); empty: it trains.
std::string refusal_of(RankPool&, const RunSpec&);
}  // namespace optrush::testing
