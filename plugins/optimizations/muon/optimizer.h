#pragma once
#include <memory>

#include "optrush/optimizer.h"
#include "optrush/spec.h"
#include "rounds.h"

namespace optrush::muon {
/// How an orthogonal update of a matrix (A, B) is scaled beside the learning rate.
enum class Scale {
  match_rms,  ///< 0.2 sqrt(max(A, B)): a root mean square of 0.2, as AdamW's updates have (arXiv:2502.16982)
  spectral    ///< sqrt(max(1, A / B)): the published form, with a rate of its own
};

struct Settings {
  double momentum = 0.95;
  bool nesterov = true;
  int64_t steps = 5;
  Scale scale = Scale::match_rms;
  double others_lr = 1;  ///< learning rate of the other shards over that of the matrices
};

/// Muon for the shards of hidden matrices, iterated in the type that the model multiplies them in, `others`
/// (made of the other shards, by the same order) for the rest. Matrices of no round are whole here.
std::unique_ptr<Optimizer> make_optimizer(const TrainSpec&, const Settings&, std::span<Shard> matrices,
                                          std::vector<Round> rounds, std::unique_ptr<Optimizer> others);

/// Those of hidden matrices, and the rest. An Error names a shard that has of both.
struct Split {
  std::vector<Shard> matrices, others;
};
Split split(std::span<Shard>);
}  // namespace optrush::muon
