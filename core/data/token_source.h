#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "optrush/spec.h"

namespace optrush {
/// The windows of a corpus that a source returns: all but the last `held_out` ones, or only these.
struct Share {
  int64_t held_out = 0;
  bool gives_held_out = false;
};

/// Cuts a corpus into windows of one sample and shuffles all but the held-out ones anew in each epoch.
class Windows {
 public:
  /// Throws an Error if the corpus is shorter than one sample and the held-out part. `corpus`: its name.
  Windows(int64_t corpus_tokens, int64_t sample_length, uint64_t seed, const std::string& corpus,
          const Share& share = {});

  /// The number of samples per epoch.
  int64_t count() const { return count_; }
  /// The index of the first token of sample `index`.
  int64_t begin(int64_t index) const;

 private:
  int64_t sample_length_, first_ = 0, count_;  ///< in windows
  bool shuffled_;
  uint64_t seed_;
};

/// Samples of tokens by number, without a cursor: a sample depends only on the seed and its number.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// All tokens are below this.
  virtual int64_t vocab_size() const = 0;
  /// Samples per epoch; 0 if the data never repeat.
  virtual int64_t count() const = 0;
  /// Fills `tokens`, which has the sample length of the source, with sample `index`, from 0 without a limit.
  virtual void sample(int64_t index, std::span<int64_t> tokens) const = 0;
};

/// A token file, little endian: a header of 32 bytes, then `count` tokens.
///   0  char[8]  "ORTOKENS"
///   8  uint32   version, 1
///  12  uint32   bytes of one token: 2 (uint16) or 4 (uint32)
///  16  uint32   vocabulary: every token is below it
///  20  uint32   0
///  24  uint64   count
struct TokenFileHeader {
  char magic[8] = {'O', 'R', 'T', 'O', 'K', 'E', 'N', 'S'};
  uint32_t version = 1, token_bytes = 2, vocab_size = 0, reserved = 0;
  uint64_t count = 0;
};
static_assert(sizeof(TokenFileHeader) == 32);

/// Opens the data of a spec for a model of `vocab_size` tokens. An Error names what is missing.
std::unique_ptr<TokenSource> open_source(const DataSpec&, uint64_t seed, int64_t vocab_size,
                                         int64_t sample_length, const Share& share = {});
/// Throws an Error if data with tokens below `tokens` do not fit a model of `vocab_size` tokens.
void check_vocabulary(const DataSpec&, int64_t tokens, int64_t vocab_size);
/// The training data of a run, in samples of seq_len + 1 tokens, without the held-out part.
std::unique_ptr<TokenSource> open_training(const RunSpec&, int64_t vocab_size);
/// The data on which a run validates: its training data, or others.
const DataSpec& validation_data(const RunSpec&);
/// The validation data: samples 0 to validate.sequences - 1.
std::unique_ptr<TokenSource> open_validation(const RunSpec&, int64_t vocab_size);
}  // namespace optrush
