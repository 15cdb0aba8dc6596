#pragma once
#include <memory>

#include "optrush/optimizer.h"
#include "optrush/spec.h"
#include "rounds.h"

namespace optrush::muon {
/// How an orthogonal update of a matrix (A, B) is scaled beside the learning rate.
enum class Scale {
  match_rms,  ///< 0.2 sqrt(max(A, B)): a root mean square of 0.2, like AdamW's updates (arXiv:2502.16982)
  spectral    ///< sqrt(max(1, A / B)): the published form, which needs another learning rate
};

struct Settings {
  double momentum = 0.95;
  bool nesterov = true;
  int64_t steps = 5;
  Scale scale = Scale::match_rms;
  double others_lr = 1;  ///< learning rate of the other shards divided by the learning rate of the matrices
};

/// Muon for the shards of hidden matrices. The iteration uses the type in which the model multiplies them.
/// `others` is the optimizer of the other shards, and has them in the same order. Matrices without a round
/// are whole on this rank.
std::unique_ptr<Optimizer> make_optimizer(const TrainSpec&, const Settings&, std::span<Shard> matrices,
                                          std::vector<Round> rounds, std::unique_ptr<Optimizer> others);

/// The shards of hidden matrices, and the other shards. split() throws an Error that names a shard with both.
struct Split {
  std::vector<Shard> matrices, others;
};
Split split(std::span<Shard>);
}  // namespace optrush::muon
