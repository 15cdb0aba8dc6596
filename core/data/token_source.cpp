#include "data/token_source.h"

#include "base/counter_random.h"
#include "base/suggest.h"
#include "data/text_source.h"
#include "data/token_file.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// Uniform random tokens, computed from (seed, sample, position).
class RandomSource final : public TokenSource {
 public:
  RandomSource(uint64_t seed, int64_t vocab_size) : seed_(seed), vocab_size_(vocab_size) {}

  int64_t vocab_size() const override { return vocab_size_; }
  int64_t count() const override { return 0; }
  void sample(int64_t index, std::span<int64_t> tokens) const override {
    const uint64_t seed = random_at(seed_, static_cast<uint64_t>(index));
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int64_t>(below(random_at(seed, i), static_cast<uint64_t>(vocab_size_)));
  }

 private:
  uint64_t seed_;
  int64_t vocab_size_;
};

std::unique_ptr<TokenSource> open_kind(const DataSpec& data, uint64_t seed, int64_t vocab_size,
                                       int64_t sample_length, const Share& share) {
  if (data.kind == "random") return std::make_unique<RandomSource>(seed, vocab_size);
  if (data.kind == "documents" || data.kind == "preferences")
    throw Error(ErrorCode::unsupported, data.kind + " are not a token stream",
                "an external program needs text or a token file");
  if (data.kind != "text" && data.kind != "tokens")
    throw Error(ErrorCode::unknown_name, "unknown data.kind '" + data.kind + "'",
                did_you_mean(data.kind, {"random", "text", "tokens", "documents", "preferences"}));
  if (data.path.empty())
    throw Error(ErrorCode::missing_value, "data of kind '" + data.kind + "' needs a path", "give data.path");
  if (data.kind == "text") return std::make_unique<TextSource>(data, seed, sample_length, share);
  return std::make_unique<TokenFileSource>(data.path, seed, sample_length, share);
}

/// Separates the random stream of validation from that of training.
constexpr uint64_t kValidation = 0x76616c6964617465;
}  // namespace

std::unique_ptr<TokenSource> open_training(const RunSpec& spec, int64_t vocab_size) {
  return open_source(spec.data, spec.train.seed, vocab_size, spec.train.seq_len + 1,
                     {.held_out = held_out(spec)});
}

const DataSpec& validation_data(const RunSpec& spec) {
  return validates_on_own_data(spec) ? spec.data : spec.validate.data;
}

std::unique_ptr<TokenSource> open_validation(const RunSpec& spec, int64_t vocab_size) {
  return open_source(validation_data(spec), random_at(spec.train.seed, kValidation), vocab_size,
                     spec.train.seq_len + 1, {.held_out = spec.validate.sequences, .gives_held_out = true});
}

std::unique_ptr<TokenSource> open_source(const DataSpec& data, uint64_t seed, int64_t vocab_size,
                                         int64_t sample_length, const Share& share) {
  auto source = open_kind(data, seed, vocab_size, sample_length, share);
  check_vocabulary(data, source->vocab_size(), vocab_size);
  return source;
}

void check_vocabulary(const DataSpec& data, int64_t tokens, int64_t vocab_size) {
  if (tokens <= vocab_size) return;
  throw Error(ErrorCode::invalid_value,
              "the data '" + data.path + "' has tokens up to " + std::to_string(tokens - 1) +
                  ", but the model's vocab_size is " + std::to_string(vocab_size),
              "set the model's vocab_size to at least " + std::to_string(tokens) +
                  (data.kind == "text" ? " (text has one token per byte)"
                                       : ", or use data made with this model's tokenizer"));
}
}  // namespace optrush
