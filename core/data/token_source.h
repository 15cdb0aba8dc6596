#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "data/windows.h"
#include "optrush/spec.h"

namespace optrush {
/// Samples of tokens by number, without a cursor: the tokens of a sample depend only on the seed and its
/// number, not on the rank or the order of calls.
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

/// Opens the data of a spec for a model of `vocab_size` tokens. Throws an Error with the missing part and the
/// remedy.
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
