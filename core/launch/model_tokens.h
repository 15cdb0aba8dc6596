#pragma once
#include <functional>
#include <map>
#include <string>

#include "experiment/experiment.h"

namespace optrush {
/// Makes texts, prompts and chats next to a checkpoint tokens of that checkpoint's tokenizer: `optrush
/// tokenize` makes them once and keeps them in the cache, under a hash of their contents and of the
/// tokenizer's. Data without a checkpoint, and tokens, stay as they are. An Error with the command where
/// there is no tokenizer or no Python for it, where the tokenizer refuses the data, or where chats have no
/// model.
class ModelTokens {
 public:
  /// `note` receives one line for each tokenized file.
  explicit ModelTokens(std::function<void(const std::string& line)> note) : note_(std::move(note)) {}

  /// Of what a run trains and validates on.
  RunSpec of(RunSpec spec, const std::string& where);
  /// Of the base and of every rung. An Error where one rung's data belong to several tokenizers.
  Expanded of(Experiment experiment);

 private:
  std::function<void(const std::string&)> note_;
  std::map<std::string, DataSpec> made_;
  int64_t pair_tokens_ = 0;  ///< of a folder that makes pairs, the most of each text; 0: by the spec
};
}  // namespace optrush
