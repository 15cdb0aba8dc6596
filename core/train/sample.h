#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "data/text_tokens.h"
#include "results/run_result.h"
#include "train/session.h"

namespace optrush {
/// Continues the prompts of a run with its model, each token the most probable one, by forwards of training's
/// shape without gradients.
class Sampler {
 public:
  /// Before the first step: an Error where the model has no tokenizer, or a prompt does not fit into a
  /// sequence. Where a rank has a part of the model's layers, sequences or vocabulary alone, nothing is
  /// sampled, and the run's notes say so.
  explicit Sampler(Session&);
  /// With the model as it is. Every rank calls it; it leaves nothing behind that a step could see. One for
  /// each prompt, or none.
  std::vector<SampledText> continued();

 private:
  Session& session_;
  std::unique_ptr<TextTokens> tokens_;         ///< null: nothing is sampled
  std::vector<std::vector<int64_t>> prompts_;  ///< as tokens
};
}  // namespace optrush
