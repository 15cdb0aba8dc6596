#include "data/token_source.h"

#include <bit>
#include <cstring>
#include <filesystem>

#include "base/counter_random.h"
#include "base/suggest.h"
#include "base/text.h"
#include "data/text_source.h"
#include "io/mapped_file.h"
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

static_assert(std::endian::native == std::endian::little, "token files are little endian");

TokenFileHeader header_of(std::span<const std::byte> bytes, const std::string& name) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_file, "'" + name + "' " + what,
                "write it as docs/reference/formats.md describes");
  };
  TokenFileHeader header;
  const TokenFileHeader expected;
  if (bytes.size() < sizeof header) fail("is not a token file: it is shorter than the header of 32 bytes");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0)
    fail("is not a token file: it does not begin with 'ORTOKENS'");
  if (header.version != expected.version)
    fail("has version " + std::to_string(header.version) + " of the format; this program reads version 1");
  if (header.token_bytes != 2 && header.token_bytes != 4)
    fail("has tokens of " + std::to_string(header.token_bytes) + " bytes; it must be 2 or 4");
  if (header.vocab_size == 0) fail("has a vocab_size of 0");
  const uint64_t space = bytes.size() - sizeof header;
  if (header.count != space / header.token_bytes || space % header.token_bytes != 0)
    fail("should have " + std::to_string(header.count) + " tokens of " + std::to_string(header.token_bytes) +
         " bytes, but " + std::to_string(space) + " bytes follow the header");
  return header;
}

template <class T>
void copy(const std::byte* from, std::span<int64_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    tokens[i] = value;
  }
}

/// Samples of a mapped token file.
class TokenFileSource final : public TokenSource {
 public:
  TokenFileSource(const std::filesystem::path& path, uint64_t seed, int64_t sample_length, const Share& share)
      : path_(path),
        file_(path),
        header_(header_of(file_.bytes(), path.string())),
        windows_(static_cast<int64_t>(header_.count), sample_length, seed, "'" + path.string() + "'", share) {
  }

  int64_t vocab_size() const override { return header_.vocab_size; }
  int64_t count() const override { return windows_.count(); }
  void sample(int64_t index, std::span<int64_t> tokens) const override {
    const int64_t begin = windows_.begin(index);
    const std::byte* const from =
        file_.bytes().data() + sizeof header_ + static_cast<size_t>(begin) * header_.token_bytes;
    header_.token_bytes == 2 ? copy<uint16_t>(from, tokens) : copy<uint32_t>(from, tokens);
    for (size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] >= header_.vocab_size)
        throw Error(ErrorCode::invalid_file,
                    "'" + path_.string() + "' has token " + std::to_string(tokens[i]) + " at position " +
                        std::to_string(begin + static_cast<int64_t>(i)) +
                        ", but the vocab_size of its header is " + std::to_string(header_.vocab_size),
                    "write the file again with the vocab_size of the tokenizer");
  }

 private:
  std::filesystem::path path_;
  MappedFile file_;
  TokenFileHeader header_;
  Windows windows_;
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

Windows::Windows(int64_t corpus_tokens, int64_t sample_length, uint64_t seed, const std::string& corpus,
                 const Share& share)
    : sample_length_(sample_length),
      count_(corpus_tokens / sample_length),
      shuffled_(!share.gives_held_out),
      seed_(seed) {
  if (count_ == 0)
    throw Error(ErrorCode::invalid_value,
                corpus + " has " + counted(corpus_tokens, "token") + ", but one sample needs " +
                    std::to_string(sample_length) + " (seq_len + 1)",
                "give a longer corpus or a smaller train.seq_len");
  const int64_t training = count_ - share.held_out;
  if (training < 0 || (training == 0 && !share.gives_held_out))
    throw Error(ErrorCode::invalid_value,
                corpus + " has " + counted(count_, "sequence") +
                    " of train.seq_len, but validate holds out " + std::to_string(share.held_out),
                "give a longer corpus, or a smaller validate.sequences");
  first_ = share.gives_held_out ? training : 0;
  count_ = share.gives_held_out ? share.held_out : training;
}

int64_t Windows::begin(int64_t index) const {
  if (!shuffled_) return (first_ + index % count_) * sample_length_;
  const int64_t epoch = index / count_;
  const uint64_t seed = random_at(seed_, static_cast<uint64_t>(epoch));
  const auto window = permuted(static_cast<uint64_t>(index % count_), static_cast<uint64_t>(count_), seed);
  return static_cast<int64_t>(window) * sample_length_;
}
}  // namespace optrush
