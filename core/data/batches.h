#pragma once
#include <memory>
#include <vector>

#include "data/token_source.h"
#include "optrush/batch.h"
#include "optrush/mesh.h"
#include "optrush/spec.h"

namespace optrush {
/// Cuts a source into the micro-batches of this rank: sequence i of step t is sample t * global_batch + i,
/// whatever the numbers of ranks and micro-batches, so two runs with one global batch see the same data.
class Batches {
 public:
  Batches(const RunSpec&, int64_t vocab_size, const Mesh&, at::Device);
  std::vector<Batch> step(int64_t step) const;

 private:
  TrainSpec train_;
  const Mesh& mesh_;
  at::Device device_;
  std::unique_ptr<TokenSource> source_;
};
/// Sequences of one step over all data ranks; an Error where the spec's global_batch is another number.
int64_t global_batch(const TrainSpec&, int64_t data_ranks);
}  // namespace optrush
