#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "results/run_result.h"
#include "train/session.h"

namespace optrush {
class TextTokens;
using TokenLists = std::vector<std::vector<int64_t>>;

/// Continues the prompts of a run by greedy decoding, with forwards of training's shape.
class Sampler {
 public:
  /// Called before the first step. Throws an Error if the model has no tokenizer or a prompt is longer than a
  /// sequence. If a rank has only a part of the model, a note of the run states that nothing is sampled.
  explicit Sampler(Session&);
  ~Sampler();
  /// Continues all prompts with the present model: one text per prompt, or none. Every rank calls it.
  std::vector<SampledText> continued();

 private:
  Session& session_;
  std::unique_ptr<TextTokens> tokens_;  ///< null if nothing is sampled
  TokenLists prompts_;                  ///< prompts as tokens
};
}  // namespace optrush
