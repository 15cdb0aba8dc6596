#include "data/batches.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <numeric>

#include "base/counter_random.h"
#include "base/files.h"
#include "base/text.h"
#include "checkpoint/tokenizer_files.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// The folder of the tokenizer that text needs; "" if the model's tokens are bytes.
std::string tokenizer_of(const Model& model) {
  constexpr int64_t kBytes = 256;
  const bool bytes =
      model.checkpoint.empty() || (model.vocab_size == kBytes && !has_tokenizer(model.checkpoint));
  return bytes ? "" : model.checkpoint;
}

void refuse_bytes(const DataSpec& data, const Model& model) {
  if (data.kind != "text" || tokenizer_of(model).empty()) return;
  throw Error(ErrorCode::invalid_value,
              "the text would be read as bytes, but the checkpoint has a different tokenizer",
              "optrush tokenize " + data.path + " tokens.bin --token-file --model " + tokenizer_of(model) +
                  ", then use rush.tokens");
}

std::unique_ptr<DocumentRows> document_rows(const DataSpec& data, const RunSpec& spec, const Model& model,
                                            const RowPacker& lay, const Share& share) {
  // One token more than a sequence holds, to notice longer documents.
  Documents documents(data.path, data.extensions, spec.train.seq_len + 2,
                      data.kind == "preferences" ? Documents::Form::pairs : Documents::Form::single,
                      tokenizer_of(model));
  auto rows =
      std::make_unique<DocumentRows>(std::move(documents), spec.train.seq_len, spec.train.seed, lay, share);
  check_vocabulary(data, rows->vocab_size(), model.vocab_size);
  return rows;
}

/// The segments of document numbers (B, S). The number of starts is constant (the last documents are empty)
/// and max_seqlen is that of all data, so that compiled code, kernels and graphs see one shape.
Segments segments_of(const Tensor& ids, const DocumentRows& source, at::Device device) {
  const int64_t rows = ids.size(0), length = ids.size(1);
  const Tensor starts = at::full({rows * source.most_documents() + 1}, rows * length,
                                 ids.options().pinned_memory(!device.is_cpu()));
  int32_t* start = starts.mutable_data_ptr<int32_t>();
  const int32_t* id = ids.const_data_ptr<int32_t>();
  Segments segments{.max_seqlen = source.longest()};
  int64_t count = 0;
  for (int64_t i = 0; i < rows * length; ++i)
    if (i % length == 0 || id[i] != id[i - 1]) start[count++] = static_cast<int32_t>(i);
  for (int64_t document = 0; document < count; ++document) {
    const auto of_one = static_cast<double>(start[document + 1] - start[document]);
    segments.pairs += of_one * of_one;
  }
  segments.ids = ids.to(device, /*non_blocking=*/true);
  segments.cu_seqlens = starts.to(device, /*non_blocking=*/true);
  return segments;
}
}  // namespace

Tensor filled_places(std::span<const int64_t> lengths, int64_t row, at::Device device) {
  const int64_t count = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  if (count == std::ssize(lengths) * row) return {};
  const Tensor places = at::empty({count}, at::TensorOptions(at::kLong).pinned_memory(!device.is_cpu()));
  int64_t* next = places.mutable_data_ptr<int64_t>();
  for (size_t i = 0; i < lengths.size(); ++i, next += lengths[i - 1])
    std::iota(next, next + lengths[i], static_cast<int64_t>(i) * row);
  return places.to(device, /*non_blocking=*/true);
}

Padding padding_of(const Recipe& recipe) {
  return recipe.rows.base().traits.has(feature::longest) ? Padding::to_longest : Padding::to_seq_len;
}

bool made_of_documents(const DataSpec& data) {
  return data.kind == "documents" || data.kind == "preferences";
}

void refuse_data_without_loss(const DataSpec& data) {
  if (data.kind == "preferences")
    throw Error(ErrorCode::unsupported,
                "the data are preference pairs, and no stacked plugin trains on pairs",
                "stack such a plugin (see optrush plugins), or give other data");
}

int64_t global_batch(const TrainSpec& train, const Mesh& mesh) {
  const int64_t data_ranks = mesh.size(mesh.batch());
  const int64_t product = train.micro_batch * train.accumulation * data_ranks;
  if (train.global_batch != 0 && train.global_batch != product)
    throw Error(ErrorCode::invalid_value,
                "global_batch is " + std::to_string(train.global_batch) + ", but micro_batch " +
                    std::to_string(train.micro_batch) + " x accumulation " +
                    std::to_string(train.accumulation) + " x " + std::to_string(data_ranks) +
                    " data-parallel ranks is " + std::to_string(product),
                "leave global_batch out, or make the factors agree");
  return product;
}

Batches::Batches(const RunSpec& spec, const Model& model, const Mesh& mesh, at::Device device,
                 const RowPacker& lay, Padding padding)
    : train_(spec.train),
      asked_for_validation_(spec.validate.sequences),
      validation_sequences_(asked_for_validation_),
      mesh_(mesh),
      device_(device),
      padding_(padding),
      input_dim_(model.input_dim),
      pairs_(model.attention_pairs),
      generator_(at::globalContext().defaultGenerator(device).clone()) {
  global_batch(train_, mesh);
  const int64_t vocab_size = model.vocab_size;
  if (vocab_size == 0) return;
  refuse_bytes(spec.data, model);
  if (spec.validate.every > 0) refuse_bytes(validation_data(spec), model);
  if (made_of_documents(spec.data))
    training_.documents = document_rows(spec.data, spec, model, lay, {.held_out = held_out(spec)});
  else
    training_.windows = open_training(spec, vocab_size);
  if (spec.validate.every == 0) return;
  // One document per sequence, also if training packs documents.
  if (const DataSpec& data = validation_data(spec); made_of_documents(data)) {
    validation_.documents = document_rows(data, spec, model, one_document_each,
                                          {.held_out = spec.validate.sequences, .gives_held_out = true});
    // Fewer if some documents were left out: no document counts twice.
    validation_sequences_ = std::min(validation_sequences_, validation_.documents->count());
  } else
    validation_.windows = open_validation(spec, vocab_size);
}

int64_t Batches::sequences_of_epoch() const {
  if (training_.documents) return training_.documents->count();
  return training_.windows ? training_.windows->count() : 0;
}

std::string Batches::description() const {
  std::string text = training_.documents ? training_.documents->description() : "";
  if (validation_sequences_ < asked_for_validation_)
    text += std::string(text.empty() ? "" : "; ") + "validation has " +
            std::to_string(validation_sequences_) + " of " + counted(asked_for_validation_, "document") +
            ": the others have no trained token within a sequence";
  return text;
}

void Batches::resume_at(int64_t step, int64_t sample) {
  origin_step_ = step;
  origin_sample_ = sample;
}

int64_t Batches::first_sample(int64_t step) const {
  const int64_t batch = train_.overfit > 0 ? 0 : step - origin_step_;
  return origin_sample_ + batch * global_batch(train_, mesh_);
}

std::vector<int64_t> Batches::tokens_of_sample(int64_t sample) const {
  const auto length = static_cast<size_t>(train_.seq_len);
  std::vector<int64_t> tokens(length + 1);
  if (training_.windows) {
    training_.windows->sample(sample, tokens);
  } else {
    std::vector<int64_t> labels(length), positions(length);
    std::vector<int32_t> documents(length);
    training_.documents->fill(sample, {std::span(tokens).first(length), labels, positions, documents});
  }
  return tokens;
}

int64_t Batches::order() const {
  std::string read = std::to_string(train_.seed) + " " + std::to_string(train_.seq_len) + " ";
  for (int64_t i = 0; training_ && i < 32; ++i) {  // the first samples, and some of later epochs
    try {
      for (const int64_t token : tokens_of_sample(i < 8 ? i : int64_t{1} << (i - 5)))
        read += std::to_string(token) + " ";
    } catch (const Error&) {  // the step that reads the sample reports the error
      read += "unreadable ";
    }
  }
  return static_cast<int64_t>(std::stoull(sha256(read).substr(0, 15), nullptr, 16));
}

std::vector<Batch> Batches::step(int64_t step) const {
  const int64_t rows = train_.micro_batch;
  const int64_t first = first_sample(step) + mesh_.rank(mesh_.batch()) * rows * train_.accumulation;
  std::vector<Batch> batches;
  for (int64_t micro = 0; micro < train_.accumulation; ++micro) {
    batches.push_back(training_ ? sequences(training_, first + micro * rows, rows)
                                : activations(first + micro * rows));
  }
  return batches;
}

StepContent Batches::content(int64_t step) const {
  const int64_t first = first_sample(step), rows = train_.micro_batch, length = train_.seq_len;
  const DocumentRows* documents = training_.documents.get();
  StepContent content;
  for (int64_t i = 0; i < global_batch(train_, mesh_); ++i) {
    const RowContent row =
        documents ? documents->content(first + i, pairs_) : RowContent{length, pairs_.of(length)};
    content.tokens += row.tokens;
    content.pairs += row.pairs;
    if (i % rows == 0)
      content.positions += rows * (documents ? length_of(*documents, first + i, rows) : length);
  }
  return content;
}

std::vector<Batch> Batches::validation() const {
  const int64_t rows = train_.micro_batch, ranks = mesh_.size(mesh_.batch());
  const int64_t rounds = (validation_sequences_ + rows * ranks - 1) / (rows * ranks);
  std::vector<Batch> batches;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t first = (round * ranks + mesh_.rank(mesh_.batch())) * rows;
    const int64_t counted = std::clamp<int64_t>(validation_sequences_ - first, 0, rows);
    batches.push_back(sequences(validation_, first, counted));
  }
  return batches;
}

Batch Batches::sequences(const Source& source, int64_t first_sample, int64_t samples) const {
  Batch batch = source.windows ? windows(*source.windows, first_sample, samples)
                               : documents(*source.documents, first_sample, samples);
  batch.first_sample = first_sample;
  return batch;
}

Batch Batches::windows(const TokenSource& source, int64_t first_sample, int64_t samples) const {
  const int64_t rows = train_.micro_batch, length = train_.seq_len;
  // Pinned if a copy to a device follows, so that the host does not wait for it.
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
    // with one row, labels and tokens share memory
    if (batch.labels.is_alias_of(placed)) batch.labels = batch.labels.clone();
    batch.labels.slice(0, samples).fill_(kIgnoredLabel);
    batch.filled = at::arange(samples * length, placed.options());
  }
  batch.positions = at::arange(length, at::TensorOptions(at::kLong).device(device_)).expand({rows, length});
  batch.valid_tokens = samples * length;
  batch.valid_sequences = samples;
  return batch;
}

int64_t Batches::length_of(const DocumentRows& source, int64_t first_sample, int64_t samples) const {
  if (padding_ == Padding::to_seq_len) return train_.seq_len;
  // Ranks with the same sequences split them evenly, and tensor cores have tiles of 16 rows.
  const int64_t unit = 16 * mesh_.world_size() / mesh_.size(mesh_.batch());
  int64_t longest = 1;
  for (int64_t row = 0; row < samples; ++row)
    longest = std::max(longest, source.content(first_sample + row, pairs_).tokens);
  return std::min((longest + unit - 1) / unit * unit, train_.seq_len);
}

Batch Batches::documents(const DocumentRows& source, int64_t first_sample, int64_t samples) const {
  const int64_t rows = train_.micro_batch, length = length_of(source, first_sample, samples);
  const auto options = at::TensorOptions(at::kLong).pinned_memory(!device_.is_cpu());
  const Tensor read = at::zeros({3, rows, length}, options);  // order: tokens, labels, positions
  const Tensor ids = at::zeros({rows, length}, options.dtype(at::kInt));
  read[1].fill_(kIgnoredLabel);
  Batch batch;
  std::vector<int64_t> lengths(static_cast<size_t>(rows), 0);
  for (int64_t row = 0; row < samples; ++row) {
    const auto numbers = [&](int64_t which) {
      return std::span(read[which][row].mutable_data_ptr<int64_t>(), static_cast<size_t>(length));
    };
    const std::span<int32_t> documents(ids[row].mutable_data_ptr<int32_t>(), static_cast<size_t>(length));
    const int64_t counted = source.fill(first_sample + row, {numbers(0), numbers(1), numbers(2), documents});
    lengths[static_cast<size_t>(row)] = source.content(first_sample + row, pairs_).tokens;
    batch.valid_tokens += counted;
    batch.valid_sequences += counted > 0 ? 1 : 0;
  }
  const Tensor placed = read.to(device_, /*non_blocking=*/true);
  batch.tokens = placed[0];
  batch.labels = placed[1];
  batch.positions = placed[2];
  batch.filled = filled_places(lengths, length, device_);
  if (source.most_documents() > 1) batch.segments = segments_of(ids, source, device_);
  return batch;
}

Batch Batches::activations(int64_t first_sample) const {
  const int64_t rows = train_.micro_batch;
  Batch batch;
  batch.input = at::empty({rows, train_.seq_len, input_dim_}, at::TensorOptions(at::kFloat).device(device_));
  at::Generator generator = generator_.clone();
  for (int64_t row = 0; row < rows; ++row) {
    generator.set_current_seed(random_at(train_.seed, static_cast<uint64_t>(first_sample + row)));
    batch.input[row].normal_(0, 1, generator);
  }
  batch.first_sample = first_sample;
  batch.valid_tokens = rows * train_.seq_len;
  batch.valid_sequences = rows;
  return batch;
}
}  // namespace optrush
