#pragma once
#include <algorithm>

#include "mesh_plan/parallel_config.h"
#include "mesh_plan/problem.h"

namespace optrush::mesh_plan {
/// The contents of one pipeline stage.
struct StageShare {
  double blocks = 0;
  bool embedding = false, head = false;
  double in_flight = 1;  ///< micro-batches with live activations, in units of the stage's blocks
};

/// Distributes the blocks so that the slowest stage is as fast as possible; the head counts as blocks.
/// Returns the first stage, which holds the most activations, and the last stage, which has the head. With
/// one stage they are the same.
std::vector<StageShare> stages_of(const ParallelConfig&, const DecoderWork&, double seq_len);

/// Parameters of a rank, after cuts by tp and before shards.
struct LocalParameters {
  double block = 0;           ///< of one block
  double block_matrix = 0;    ///< the part of `block` in matrices
  double block_products = 0;  ///< the part of `block` that one token is multiplied by
  double experts = 0;         ///< of all blocks of the rank; part of the total
  double vocabulary = 0;      ///< the embedding, or the head's matrix
  double total = 0, matrices = 0;

  /// Parameters that a rank holds of shards over all replicas. An expert is sharded over the ranks that
  /// have it.
  double in_shards(const ParallelConfig& mix) const {
    return (total - experts) / real(mix.shard_ranks) + experts * real(mix.ep) / real(mix.shard_ranks);
  }
};
LocalParameters local_parameters(const ParallelConfig&, const DecoderWork&, const StageShare&);

/// Bytes of the device that needs the most memory. Activations are counted with the project's attention,
/// without scores, fused norms and SwiGLU, and loss without whole logits. tp cuts the residual stream and the
/// norms along the sequence (arXiv:2205.05198).
struct ConfigMemory {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0;
  double working = 0;  ///< part of the activations: temporary tensors in the backward of one block
  /// True if gradients exist beside activations: from earlier micro-batches, or in the buckets of copies.
  /// Otherwise they reuse the memory of freed activations.
  bool together = true;
  double total() const {
    return parameters + optimizer +
           (together ? gradients + activations : std::max(gradients + working, activations));
  }
};
ConfigMemory memory_of(const ParallelConfig&, const TrainingProblem&);

/// Bytes that one block saves for its backward, for one micro-batch.
double block_activations(const ParallelConfig&, const TrainingProblem&);
}  // namespace optrush::mesh_plan
