#include "train/sample.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/printable.h"
#include "optrush/error.h"
#include "optrush/saved_tensors.h"
#include "recipe/evaluation_scope.h"
#include "train/evaluated_parameters.h"

namespace optrush {
namespace {
using TokenLists = std::vector<std::vector<int64_t>>;

/// Whether this rank has whole sequences, every layer and the whole vocabulary.
bool has_whole_model(const Session& session) {
  const Mesh& mesh = session.mesh();
  return mesh.size(mesh.batch()) == mesh.world_size() && !session.recipe().stages.edited();
}

/// A micro-batch of training's shape. The padding behind a row's tokens does not matter, because attention is
/// causal.
Batch batch_of(const TokenLists& rows, size_t first, const TrainSpec& train, at::Device device) {
  const Tensor tokens = at::zeros({train.micro_batch, train.seq_len}, at::kLong);
  for (int64_t row = 0; row < train.micro_batch && first + static_cast<size_t>(row) < rows.size(); ++row) {
    const auto& from = rows[first + static_cast<size_t>(row)];
    std::ranges::copy(from, tokens[row].mutable_data_ptr<int64_t>());
  }
  Batch batch;
  batch.tokens = tokens.to(device);
  batch.positions = at::arange(train.seq_len, at::TensorOptions(at::kLong).device(device))
                        .expand({train.micro_batch, train.seq_len});
  batch.valid_sequences = train.micro_batch;
  batch.token_count = batch.sequence_count = 1;
  return batch;
}

/// Appends the most probable next token to each row.
void extend(Session& session, TokenLists& rows, const std::vector<char>& ended) {
  const TrainSpec& train = session.spec().train;
  const auto step = static_cast<size_t>(train.micro_batch);
  for (size_t first = 0; first < rows.size(); first += step) {
    Batch batch = batch_of(rows, first, train, session.device());
    session.prepare(batch);
    session.data_parallel().before_forward();
    const Tensor logits = session.forward(0, batch, {});
    for (size_t row = first; row < std::min(first + step, rows.size()); ++row)
      if (!ended[row])
        rows[row].push_back(logits[static_cast<int64_t>(row - first)]
                                .select(0, static_cast<int64_t>(rows[row].size()) - 1)
                                .argmax()
                                .item<int64_t>());
  }
}
}  // namespace

Sampler::Sampler(Session& session) : session_(session) {
  if (!has_whole_model(session)) {
    session.note("no text was sampled, because each rank has only a part of the model");
    return;
  }
  const SampleSpec& sample = session.spec().sample;
  tokens_ = open_text_tokens(session.model().checkpoint, session.model().vocab_size);
  prompts_ = tokens_->tokens(sample.prompts);
  const int64_t longest = session.spec().train.seq_len;
  for (size_t i = 0; i < prompts_.size(); ++i)
    if (prompts_[i].empty() || std::ssize(prompts_[i]) >= longest)
      throw Error(
          ErrorCode::invalid_value,
          "sample: the prompt '" + printable(sample.prompts[i]) + "' has " +
              std::to_string(prompts_[i].size()) + " tokens",
          "give prompts of 1 to " + std::to_string(longest - 1) + " tokens (less than train.seq_len)");
}

std::vector<SampledText> Sampler::continued() {
  if (!tokens_) return {};
  const SampleSpec& sample = session_.spec().sample;
  TokenLists rows = prompts_;
  const int64_t longest = session_.spec().train.seq_len;
  const at::NoGradGuard no_grad;
  const EvaluationScope evaluation;
  const RandomState host(at::kCPU), device(session_.device());
  const RandomState::Rewound host_afterwards(host), device_afterwards(device);
  const auto not_of_a_step = session_.groups().bookkeeping();
  const EvaluatedParameters evaluated(session_);
  std::vector<char> ended(rows.size(), 0);
  // Every rank makes the same number of forwards; the rows are equal on all ranks.
  for (int64_t made = 0; made < sample.tokens; ++made) {
    for (size_t i = 0; i < rows.size(); ++i)
      ended[i] = ended[i] != 0 || static_cast<int64_t>(rows[i].size()) == longest ||
                 (rows[i].size() > prompts_[i].size() && rows[i].back() == tokens_->end());
    extend(session_, rows, ended);
  }
  for (const Param* param : session_.params().all()) param->compute_copy.drop();
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i].erase(rows[i].begin(), rows[i].begin() + std::ssize(prompts_[i]));
  const auto texts = tokens_->texts(rows);
  std::vector<SampledText> said;
  for (size_t i = 0; i < texts.size(); ++i) said.push_back({.prompt = sample.prompts[i], .text = texts[i]});
  return said;
}
}  // namespace optrush
