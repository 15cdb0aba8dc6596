#include "train/sample.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/printable.h"
#include "base/temporary_folder.h"
#include "checkpoint/tokenizer_files.h"
#include "data/text_source.h"
#include "machine/installation.h"
#include "optrush/advanced/machine.h"
#include "optrush/advanced/saved_tensors.h"
#include "optrush/error.h"
#include "optrush/json.h"
#include "recipe/evaluation_scope.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr int64_t kByteTokens = 256;

/// Replaces invalid UTF-8, because a model of bytes may produce incomplete characters.
std::string valid_utf8(std::string text) {
  static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
  for (size_t bad = 0; (bad = invalid_utf8(text, false, false)) != std::string::npos;)
    text.replace(bad, 1, kReplacement);
  return text;
}
}  // namespace

/// Converts text to a model's tokens and back. The tokenizer of a checkpoint's folder is called through
/// Python, by a process for each call, because a run makes only two calls. Without a checkpoint, or with one
/// of 256 tokens and no tokenizer, a token is a byte.
class TextTokens {
 public:
  /// Throws an Error that states what is missing.
  TextTokens(const std::string& checkpoint, int64_t vocab_size) {
    if (!checkpoint.empty() && has_tokenizer(checkpoint)) {
      folder_ = checkpoint;
      end_ = asked({{"tokens", Json::array()}}).at("end").get<int64_t>();
    } else if (checkpoint.empty() ? vocab_size < kByteTokens : vocab_size != kByteTokens) {
      throw Error(ErrorCode::missing_file,
                  "sample: " + (checkpoint.empty() ? std::string("the model") : "'" + checkpoint + "'") +
                      " has no tokenizer, and its " + std::to_string(vocab_size) + " tokens are not bytes",
                  checkpoint.empty() ? "give the model a vocab_size of 256 or more, or leave out sample"
                                     : "put the model's tokenizer.json and tokenizer_config.json into that "
                                       "folder, or leave out sample");
    }
  }
  TokenLists tokens(const std::vector<std::string>& texts) const {
    if (!folder_.empty()) return asked({{"texts", texts}}).at("tokens").get<TokenLists>();
    TokenLists all;
    for (const std::string& text : texts) {
      auto& tokens = all.emplace_back();
      for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    }
    return all;
  }
  std::vector<std::string> texts(const TokenLists& tokens) const {
    if (!folder_.empty()) return asked({{"tokens", tokens}}).at("texts").get<std::vector<std::string>>();
    std::vector<std::string> all;
    for (const auto& one : tokens) {
      std::string text;
      for (const int64_t token : one) text += static_cast<char>(token);
      all.push_back(valid_utf8(std::move(text)));
    }
    return all;
  }
  /// The token that ends a text; -1: none.
  int64_t end() const { return end_; }

 private:
  Json asked(const Json& question) const {
    const TemporaryFolder folder;
    const fs::path& work = folder.path();
    write_json(work / "question.json", question);
    const fs::path script = Installation::of_this_program().scripts / "text_tokens.py";
    const int code = run_python({script.string(), folder_.string(), (work / "question.json").string(),
                                 (work / "answer.json").string()},
                                work / "log.txt");
    if (code != 0)
      throw Error(
          ErrorCode::missing_requirement,
          "the tokenizer of '" + folder_.string() + "' can't be used: " + read_file(work / "log.txt"),
          "install transformers (./optrush setup peers, or pip install transformers), or leave out sample");
    return read_json(work / "answer.json");
  }

  fs::path folder_;  ///< of the tokenizer; empty: a token is a byte
  int64_t end_ = -1;
};

namespace {
/// Whether this rank has whole sequences, every layer and the whole vocabulary.
bool has_whole_model(const Session& session) {
  const Mesh& mesh = session.mesh();
  return mesh.size(mesh.batch()) == mesh.world_size() && !session.recipe().stages.edited();
}

/// A micro-batch of training's shape. Nothing attends to the padding behind a row's tokens.
Batch batch_of(const TokenLists& rows, size_t first, const TrainSpec& train, at::Device device) {
  const Tensor tokens = at::zeros({train.micro_batch, train.seq_len}, at::kLong);
  std::vector<int64_t> lengths(static_cast<size_t>(train.micro_batch), 0);
  for (int64_t row = 0; row < train.micro_batch && first + static_cast<size_t>(row) < rows.size(); ++row) {
    const auto& from = rows[first + static_cast<size_t>(row)];
    std::ranges::copy(from, tokens[row].mutable_data_ptr<int64_t>());
    lengths[static_cast<size_t>(row)] = std::ssize(from);
  }
  Batch batch;
  batch.tokens = tokens.to(device);
  batch.positions = at::arange(train.seq_len, at::TensorOptions(at::kLong).device(device))
                        .expand({train.micro_batch, train.seq_len});
  batch.filled = filled_places(lengths, train.seq_len, device);
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
  tokens_ = std::make_unique<TextTokens>(session.model().checkpoint, session.model().vocab_size);
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

Sampler::~Sampler() = default;

std::vector<SampledText> Sampler::continued() {
  if (!tokens_) return {};
  const SampleSpec& sample = session_.spec().sample;
  TokenLists rows = prompts_;
  const int64_t longest = session_.spec().train.seq_len;
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
