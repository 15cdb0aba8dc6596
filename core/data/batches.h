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
  /// This rank's part of what the run validates on, in micro-batches of the size of training's; rows that are
  /// left over have no label that counts.
  std::vector<Batch> validation() const;

 private:
  Batch tokens(const TokenSource&, int64_t first_sample, int64_t samples) const;
  Batch activations(int64_t first_sample) const;

  TrainSpec train_;
  int64_t validation_sequences_;
  const Mesh& mesh_;
  at::Device device_;
  int64_t input_dim_;
  std::unique_ptr<TokenSource> source_, validation_;  ///< null: there is none
};
/// Sequences of one step over all ranks that split the batch; an Error where the spec's global_batch is
/// another number.
int64_t global_batch(const TrainSpec&, const Mesh&);
}  // namespace optrush
