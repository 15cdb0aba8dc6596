#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "mesh_plan/problem.h"
#include "optrush/spec.h"

namespace optrush::mesh_plan {
/// Converts a count for formulas.
constexpr double real(int64_t count) { return static_cast<double>(count); }

/// The blocks that save only their input and are recomputed in the backward.
enum class Recompute : uint8_t { none, every_second, full };
/// The share of such blocks.
double share_of(Recompute);
std::string to_string(Recompute);

/// How devices share the training of one model. Dimensions nest in the order pp, dp, cp, ep, tp: ranks that
/// differ only in `tp` are neighbours.
struct ParallelConfig {
  int64_t pp = 1;                  ///< ranks that share the layers, by 1F1B (arXiv:2104.04473)
  int64_t dp = 1, cp = 1, tp = 1;  ///< ranks that share sequences, parts of a sequence, cuts of matrices
  int64_t ep = 1;                  ///< ranks that share the experts and train on different sequences
  int64_t stage = 0;               ///< sharding over dp x cp x ep: 1 optimizer, 2 gradients, 3 parameters
  int64_t shard_ranks = 1;         ///< neighbours that hold one copy together; 1 at stage 0
  int64_t micro_batch = 1;         ///< sequences
  int64_t accumulation = 1;        ///< micro-batches of a step
  int64_t chunks = 1;              ///< interleaved chunks of layers on a rank of pp
  Recompute recompute = Recompute::none;

  int64_t devices() const { return pp * dp * cp * ep * tp; }
  /// Ranks that train on different sequences.
  int64_t batch_ranks() const { return dp * ep; }
  /// Ranks that add up a gradient. For an expert they are fewer by the factor ep.
  int64_t replicas() const { return dp * cp * ep; }
  bool operator==(const ParallelConfig&) const = default;
};

/// "pp 2, dp 4, tp 8": the dimensions above 1.
std::string mesh_text(const ParallelConfig&);
/// "stage 3", "stage 3 over 8": the sharding of the replicas; "copies" at stage 0.
std::string sharding_text(const ParallelConfig&);

/// The reason why the mix cannot train the problem, in words that many mixes share; "" if it can.
std::string refusal(const ParallelConfig&, const TrainingProblem&);

/// Every (pp, dp, cp, ep, tp) with this product, once. ep divides the number of experts.
std::vector<ParallelConfig> meshes_of(int64_t devices, int64_t experts = 0);
/// The mesh with each sharding of its replicas: over all of them, or over the replicas in one node of
/// `per_node` devices.
std::vector<ParallelConfig> shardings_of(const ParallelConfig& mesh, int64_t per_node);
/// The schedules that are not refused: each micro-batch (a power of two), recomputation, and number of chunks
/// of at least two blocks.
std::vector<ParallelConfig> schedules_of(const ParallelConfig& sharded, const TrainingProblem&);
}  // namespace optrush::mesh_plan
