#pragma once
#include <ATen/core/Generator.h>

#include <memory>
#include <span>
#include <vector>

#include "data/document_rows.h"
#include "data/token_source.h"
#include "model/model.h"
#include "optrush/batch.h"
#include "optrush/mesh.h"
#include "optrush/recipe.h"
#include "optrush/spec.h"

namespace optrush {
/// Counts over the sequences of a step, on all ranks together.
struct StepContent {
  int64_t tokens = 0;     ///< positions without padding
  int64_t positions = 0;  ///< positions including padding
  double pairs = 0;       ///< pairs of positions that attention relates (AttentionPairs)
};

/// The length of sequences of documents.
enum class Padding : uint8_t {
  to_seq_len,
  /// That of the longest document in the micro-batch, rounded up so that ranks can split it.
  to_longest
};

/// The padding that the base of the slot `rows` requests: feature::longest.
Padding padding_of(const Recipe&);

/// Makes the micro-batches of this rank. Sequence i of step t is sample t * global_batch + i, independent of
/// the numbers of ranks and micro-batches, so two runs with equal global batches see the same data. After
/// resume_at(), steps and samples count from there. A run that overfits has the samples of its first step in
/// every step. A model without a vocabulary gets random activations, where each sequence is a function of
/// (seed, sample) on one type of device.
class Batches {
 public:
  /// `lay`: places documents in sequences, for data of documents.
  Batches(const RunSpec&, const Model&, const Mesh&, at::Device, const RowPacker& lay = one_document_each,
          Padding padding = Padding::to_seq_len);
  std::vector<Batch> step(int64_t step) const;
  /// Makes step `step` start with sample `sample`, independent of earlier reads.
  void resume_at(int64_t step, int64_t sample);
  /// The number of the first sample of a step, over all ranks.
  int64_t first_sample(int64_t step) const;
  /// A hash of some samples. It is equal for runs that read the same samples in the same order.
  int64_t order() const;
  StepContent content(int64_t step) const;
  /// This rank's part of the validation data, in micro-batches of training's size filled with empty rows.
  std::vector<Batch> validation() const;
  /// Number of training sequences per epoch; 0 if the data never repeat.
  int64_t sequences_of_epoch() const;
  /// Describes the use of documents; "" if there are none.
  std::string description() const;
  bool leaves_out_many() const { return training_.documents && training_.documents->leaves_out_many(); }

 private:
  /// A source of sequences: windows of a token stream, or documents.
  struct Source {
    std::unique_ptr<TokenSource> windows;
    std::unique_ptr<DocumentRows> documents;
    explicit operator bool() const { return windows || documents; }
  };
  /// A batch with `samples` sequences. The other rows have token 0 and no labels with a loss.
  Batch sequences(const Source&, int64_t first_sample, int64_t samples) const;
  Batch windows(const TokenSource&, int64_t first_sample, int64_t samples) const;
  Batch documents(const DocumentRows&, int64_t first_sample, int64_t samples) const;
  Batch activations(int64_t first_sample) const;
  /// The positions of each sequence of a micro-batch.
  int64_t length_of(const DocumentRows&, int64_t first_sample, int64_t samples) const;
  std::vector<int64_t> tokens_of_sample(int64_t sample) const;

  TrainSpec train_;
  int64_t asked_for_validation_, validation_sequences_;
  int64_t origin_step_ = 0, origin_sample_ = 0;
  const Mesh& mesh_;
  at::Device device_;
  Padding padding_;
  int64_t input_dim_;
  AttentionPairs pairs_;
  /// Generator of the device; copies of it are seeded, so that any thread may ask for a step
  at::Generator generator_;
  Source training_, validation_;  ///< empty: there is no such data
};
/// The places in rows of `row` positions each whose first `lengths` hold tokens; undefined: all do.
Tensor filled_places(std::span<const int64_t> lengths, int64_t row, at::Device);
/// Whether the sequences hold documents with individual lengths.
bool made_of_documents(const DataSpec&);
/// Throws an Error if the model's head has no loss for such data, and no plugin provides one.
void refuse_data_without_loss(const DataSpec&);
/// Sequences per step over all ranks that split the batch. Another global_batch is an Error.
int64_t global_batch(const TrainSpec&, const Mesh&);
}  // namespace optrush
