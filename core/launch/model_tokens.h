#pragma once
#include <functional>
#include <map>
#include <string>

#include "experiment/experiment.h"

namespace optrush {
/// Replaces texts, prompts and chats for a checkpoint by tokens of its tokenizer. `optrush tokenize` makes
/// them once and stores them in the cache, under a hash of the data and the tokenizer. Data without a
/// checkpoint and tokens stay unchanged. Throws an Error with the command if there is no tokenizer or no
/// Python for it, if the tokenizer refuses the data, or if chats have no model.
class ModelTokens {
 public:
  /// `note` receives one line per tokenized file.
  explicit ModelTokens(std::function<void(const std::string& line)> note) : note_(std::move(note)) {}

  /// Replaces the training and validation data of a run.
  RunSpec of(RunSpec spec, const std::string& where);
  /// Replaces the data of the base and every rung. Throws an Error if the data of one rung belong to several
  /// tokenizers.
  Expanded of(Experiment experiment);

 private:
  std::function<void(const std::string&)> note_;
  std::map<std::string, DataSpec> made_;
  int64_t pair_tokens_ = 0;  ///< limit per text, for a folder that becomes preference pairs; 0: from the spec
};
}  // namespace optrush
