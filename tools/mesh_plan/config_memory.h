#pragma once
#include <algorithm>

#include "mesh_plan/parallel_config.h"
#include "mesh_plan/problem.h"

namespace optrush::mesh_plan {
/// Contents of one pipeline stage.
struct StageShare {
  double blocks = 0;
  bool embedding = false, head = false;
  double in_flight = 1;  ///< micro-batches whose activations it holds, in units of its blocks
};

/// Blocks are dealt so that the slowest stage is as fast as can be, with the head counted in blocks: the
/// first stage, which holds the most activations, and the last one, which has the head. One stage is both.
std::vector<StageShare> stages_of(const ParallelConfig&, const DecoderWork&, double seq_len);

/// Parameters of a rank, after cuts by tp and before shards.
struct LocalParameters {
  double block = 0;           ///< of one block
  double block_matrix = 0;    ///< those of them in matrices
  double block_products = 0;  ///< those of them that a token is multiplied with
  double experts = 0;         ///< of all its blocks, part of total
  double vocabulary = 0;      ///< the embedding, or the head's matrix
  double total = 0, matrices = 0;

  /// Parameters of a rank in shards: over all replicas, but an expert over
  /// those that have it.
  double in_shards(const ParallelConfig& mix) const {
    return (total - experts) / real(mix.shard_ranks) + experts * real(mix.ep) / real(mix.shard_ranks);
  }
};
LocalParameters local_parameters(const ParallelConfig&, const DecoderWork&, const StageShare&);

/// Bytes of the fullest device. Activations are what the project's attention without scores, fused norms and
/// SwiGLU, and loss without whole logits keep; residual stream and norms are cut by tp over the sequence
/// (arXiv:2205.05198).
struct ConfigMemory {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0;
  double working = 0;  ///< of the activations: what the backward of one block takes
  /// Gradients exist beside activations: earlier micro-batches', or the buckets of copies. Else they
  /// reuse the memory of freed activations.
  bool together = true;
  double total() const {
    return parameters + optimizer +
           (together ? gradients + activations : std::max(gradients + working, activations));
  }
};
ConfigMemory memory_of(const ParallelConfig&, const TrainingProblem&);

/// Bytes that one block keeps for its backward, of a micro-batch.
double block_activations(const ParallelConfig&, const TrainingProblem&);
}  // namespace optrush::mesh_plan
