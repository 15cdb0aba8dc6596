#pragma once
#include <memory>
#include <vector>

#include "data/token_source.h"
#include "model/model.h"
#include "optrush/batch.h"
#include "optrush/mesh.h"
#include "optrush/spec.h"

namespace optrush {
/// Cuts a source into the micro-batches of this rank: sequence i of step t is sample t * global_batch + i,
/// whatever the numbers of ranks and micro-batches, so two runs with one global batch see the same data. A
/// model without a vocabulary gets random activations, where each sequence is a function of (seed, sample) on
/// one type of device.
class Batches {
 public:
  Batches(const RunSpec&, const Model&, const Mesh&, at::Device);
  std::vector<Batch> step(int64_t step) const;

 private:
  Batch tokens(int64_t first_sample) const;
  Batch activations(int64_t first_sample) const;

  TrainSpec train_;
  const Mesh& mesh_;
  at::Device device_;
  int64_t input_dim_;
  std::unique_ptr<TokenSource> source_;
};
/// Sequences of one step over all ranks that split the batch; an Error where the spec's global_batch is
/// another number.
int64_t global_batch(const TrainSpec&, const Mesh&);
}  // namespace optrush
