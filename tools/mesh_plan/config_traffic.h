#pragma once
#include <string>
#include <vector>

#include "mesh_plan/config_memory.h"
#include "mesh_plan/hardware.h"

namespace optrush::mesh_plan {
/// Traffic of a rank in a step for one purpose.
struct MixTraffic {
  std::string dimension;  ///< "dp", "cp", "ep", "tp", "pp"; dp x cp x ep is "dp" too
  std::string what;       ///< "gradients", "parameters", "pieces", "sums", "keys", "rows", "boundaries"
  double bytes = 0;
  double rounds = 0;  ///< ways round the ring, or messages
  Ring ring;

  /// Nothing else runs meanwhile.
  double seconds() const;
};

/// Of a rank of this stage. With Psi the bytes of the type that is sent, N replicas and k micro-batches,
/// times (N - 1) / N: stage 0 and 1 2 Psi, stage 2 (k + 1) Psi, stage 3 3 k Psi (arXiv:1910.02054). tp: 4
/// sums of B S D a block and micro-batch (arXiv:1909.08053), 2 more where it runs again, one at either end.
/// cp: N - 1 hops of keys and values in the forward, of them and their gradients in fp32 in the backward
/// (arXiv:2310.01889). ep: the rows of a mixture there and back, in the forward and the backward
/// (arXiv:2006.16668). pp: B S D over two boundaries a micro-batch and chunk, over one less with two stages.
std::vector<MixTraffic> traffic_of(const ParallelConfig&, const TrainingProblem&, const StageShare&,
                                   const Hardware&);

/// Bytes of keys and values that one rank of cp hands on, of a micro-batch and block.
double ring_message(const ParallelConfig&, const TrainingProblem&);
/// Messages of these bytes that it hands on at each hop: keys and values in the forward and the backward, and
/// their gradients, which are in fp32.
double ring_messages(const ParallelConfig&, const TrainingProblem&);
}  // namespace optrush::mesh_plan
