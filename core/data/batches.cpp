#include "data/batches.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include <algorithm>

#include "data/counter_random.h"
#include "optrush/error.h"

namespace optrush {
int64_t global_batch(const TrainSpec& train, const Mesh& mesh) {
  const int64_t data_ranks = mesh.size(mesh.batch());
  const int64_t product = train.micro_batch * train.accumulation * data_ranks;
  if (train.global_batch != 0 && train.global_batch != product)
    throw Error("global_batch is " + std::to_string(train.global_batch) + ", but micro_batch " +
                    std::to_string(train.micro_batch) + " x accumulation " +
                    std::to_string(train.accumulation) + " x " + std::to_string(data_ranks) +
                    " data ranks is " + std::to_string(product),
                "leave global_batch out, or make the factors agree");
  return product;
}

Batches::Batches(const RunSpec& spec, const Model& model, const Mesh& mesh, at::Device device)
    : train_(spec.train),
      validation_sequences_(spec.validate.sequences),
      mesh_(mesh),
      device_(device),
      input_dim_(model.input_dim) {
  if (model.vocab_size > 0) source_ = open_training(spec, model.vocab_size);
  if (model.vocab_size > 0 && spec.validate.every > 0) validation_ = open_validation(spec, model.vocab_size);
  global_batch(train_, mesh);
}

std::vector<Batch> Batches::step(int64_t step) const {
  const int64_t rows = train_.micro_batch;
  const int64_t first =
      step * global_batch(train_, mesh_) + mesh_.rank(mesh_.batch()) * rows * train_.accumulation;
  std::vector<Batch> batches;
  for (int64_t micro = 0; micro < train_.accumulation; ++micro) {
    batches.push_back(source_ ? tokens(*source_, first + micro * rows, rows)
                              : activations(first + micro * rows));
    batches.back().first_sample = first + micro * rows;
    batches.back().valid_tokens = rows * train_.seq_len;
  }
  return batches;
}

std::vector<Batch> Batches::validation() const {
  const int64_t rows = train_.micro_batch, ranks = mesh_.size(mesh_.batch());
  const int64_t rounds = (validation_sequences_ + rows * ranks - 1) / (rows * ranks);
  std::vector<Batch> batches;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t first = (round * ranks + mesh_.rank(mesh_.batch())) * rows;
    const int64_t counted = std::clamp<int64_t>(validation_sequences_ - first, 0, rows);
    batches.push_back(tokens(*validation_, first, counted));
    batches.back().first_sample = first;
    batches.back().valid_tokens = counted * train_.seq_len;
  }
  return batches;
}

/// The first `samples` rows; the others are of token 0, and none of their labels counts.
Batch Batches::tokens(const TokenSource& source, int64_t first_sample, int64_t samples) const {
  const int64_t rows = train_.micro_batch, length = train_.seq_len;
  // Pinned where a copy follows: the host goes on while it runs.
  const Tensor read =
      at::empty({rows, length + 1}, at::TensorOptions(at::kLong).pinned_memory(!device_.is_cpu()));
  for (int64_t row = 0; row < samples; ++row)
    source.sample(first_sample + row,
                  {read.mutable_data_ptr<int64_t>() + row * (length + 1), static_cast<size_t>(length + 1)});
  if (samples < rows) read.slice(0, samples).zero_();
  const Tensor placed = read.to(device_, /*non_blocking=*/true);
  Batch batch;
  batch.tokens = placed.slice(1, 0, length).contiguous();
  batch.labels = placed.slice(1, 1, length + 1).contiguous();
  if (samples < rows) {
    if (batch.labels.is_alias_of(placed)) batch.labels = batch.labels.clone();  // of one row, with the tokens
    batch.labels.slice(0, samples).fill_(-100);
  }
  batch.positions = at::arange(length, at::TensorOptions(at::kLong).device(device_)).expand({rows, length});
  return batch;
}

Batch Batches::activations(int64_t first_sample) const {
  const int64_t rows = train_.micro_batch;
  Batch batch;
  batch.input = at::empty({rows, train_.seq_len, input_dim_}, at::TensorOptions(at::kFloat).device(device_));
  at::Generator generator = at::globalContext().defaultGenerator(device_).clone();
  for (int64_t row = 0; row < rows; ++row) {
    generator.set_current_seed(random_at(train_.seed, static_cast<uint64_t>(first_sample + row)));
    batch.input[row].normal_(0, 1, generator);
  }
  return batch;
}
}  // namespace optrush
