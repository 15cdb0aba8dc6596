#pragma once
#include <string>
#include <vector>

#include "mesh_plan/config_memory.h"
#include "mesh_plan/hardware.h"

namespace optrush::mesh_plan {
/// The traffic of a rank in a step for one purpose.
struct MixTraffic {
  std::string dimension;  ///< "dp", "cp", "ep", "tp", "pp"; dp x cp x ep is also "dp"
  std::string what;       ///< "gradients", "parameters", "pieces", "sums", "keys", "rows", "boundaries"
  double bytes = 0;
  double rounds = 0;  ///< passes round the ring, or messages
  Ring ring;

  /// The time of the traffic if nothing else runs.
  double seconds() const;
};

/// The traffic of a rank of this stage, where Psi is the bytes of the parameters in the type that is sent, N
/// the number of replicas and k the number of micro-batches.
///
/// - Replicas, times (N - 1) / N: 2 Psi at stages 0 and 1, (k + 1) Psi at stage 2, 3 k Psi at stage 3
///   (arXiv:1910.02054).
/// - tp: 4 reductions of B S D for a block and micro-batch (arXiv:1909.08053), 2 more if the block is
///   recomputed, and one at either end of the model.
/// - cp: N - 1 hops of keys and values in the forward; of keys, values and their fp32 gradients in the
///   backward (arXiv:2310.01889).
/// - ep: the rows of a mixture to the experts and back, in the forward and the backward (arXiv:2006.16668).
/// - pp: B S D over two boundaries for a micro-batch and chunk, over one boundary with two stages.
std::vector<MixTraffic> traffic_of(const ParallelConfig&, const TrainingProblem&, const StageShare&,
                                   const Hardware&);

/// Bytes of keys and values that one rank of cp passes on, for a micro-batch and block.
double ring_message(const ParallelConfig&, const TrainingProblem&);
/// Messages of this size in each hop: keys and values in the forward and the backward, and their fp32
/// gradients.
double ring_messages(const ParallelConfig&, const TrainingProblem&);
}  // namespace optrush::mesh_plan
