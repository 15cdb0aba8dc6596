#pragma once
#include <ATen/core/Generator.h>

#include <memory>
#include <vector>

#include "data/data_position.h"
#include "data/document_rows.h"
#include "data/token_source.h"
#include "model/model.h"
#include "optrush/batch.h"
#include "optrush/mesh.h"
#include "optrush/spec.h"

namespace optrush {
/// Contents of the sequences of a step, on all ranks together.
struct StepContent {
  int64_t tokens = 0;     ///< that the model processes: every position but padding
  int64_t positions = 0;  ///< padding among them
  double pairs = 0;       ///< of positions that attention relates (AttentionPairs)
};

/// Cuts a source into the micro-batches of this rank: sequence i of step t is sample t * global_batch + i,
/// whatever the numbers of ranks and micro-batches, so two runs with one global batch see the same data.
/// After go_on() steps and samples count from there. A run that overfits has the samples of its first step in
/// every step. A model without a vocabulary gets random activations,
/// where each sequence is a function of (seed, sample) on one type of device.
class Batches {
 public:
  /// `lay`: of data that is documents.
  Batches(const RunSpec&, const Model&, const Mesh&, at::Device, const LayRows& lay = one_document_each);
  std::vector<Batch> step(int64_t step) const;
  /// From here on step `step` begins with sample `sample`, whatever was read before and in which batches.
  void go_on(int64_t step, int64_t sample);
  /// Number of the first sample of a step, over all ranks.
  int64_t first_sample(int64_t step) const;
  /// Equal for runs that read the same samples under the same numbers: it is a hash of some of them.
  int64_t order() const;
  StepContent content(int64_t step) const;
  /// This rank's part of what the run validates on, in micro-batches of the size of training's; rows that are
  /// left over have no label that counts.
  std::vector<Batch> validation() const;
  /// Sequences of an epoch of training; 0 where there is no end of new ones.
  int64_t sequences_of_epoch() const;
  /// Description of the use of documents; "" if there are none.
  std::string description() const;

 private:
  /// The source of sequences: windows of a token stream, or documents.
  struct Source {
    std::unique_ptr<TokenSource> windows;
    std::unique_ptr<DocumentRows> documents;
    explicit operator bool() const { return windows || documents; }
  };
  /// The first `samples` rows; the others are of token 0, and none of their labels counts.
  Batch sequences(const Source&, int64_t first_sample, int64_t samples) const;
  Batch windows(const TokenSource&, int64_t first_sample, int64_t samples) const;
  Batch documents(const DocumentRows&, int64_t first_sample, int64_t samples) const;
  Batch activations(int64_t first_sample) const;
  std::vector<int64_t> tokens_of_sample(int64_t sample) const;

  TrainSpec train_;
  int64_t asked_for_validation_, validation_sequences_;
  int64_t origin_step_ = 0, origin_sample_ = 0;
  const Mesh& mesh_;
  at::Device device_;
  int64_t input_dim_;
  AttentionPairs pairs_;
  at::Generator generator_;       ///< of the device; copies are seeded, so that any thread may ask for a step
  Source training_, validation_;  ///< empty: there is none
};
/// Whether its sequences hold documents, each with a length of its own.
bool made_of_documents(const DataSpec&);
/// An Error where a model's head makes no loss of such data: a plugin has to (Recipe::learn_from).
void refuse_data_without_loss(const DataSpec&);
/// Sequences of one step over all ranks that split the batch; an Error where the spec's global_batch is
/// another number.
int64_t global_batch(const TrainSpec&, const Mesh&);
}  // namespace optrush
