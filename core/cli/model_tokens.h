#pragma once
#include <functional>
#include <map>
#include <string>

#include "experiment/experiment.h"

namespace optrush {
/// Replaces texts, prompts and chats for a checkpoint by tokens of its tokenizer, which `optrush tokenize`
/// makes once and stores in the cache. Other data stay unchanged. Throws an Error with the command if there
/// is no tokenizer or no Python for it, if the tokenizer refuses the data, or if chats have no model.
class ModelTokens {
 public:
  struct Asked {
    DataSpec data;
    std::string model;    ///< folder of the checkpoint
    int64_t pair_tokens;  ///< limit per text, for a folder that becomes preference pairs
    std::string where;    ///< place in the script
  };

  /// `note` receives one line per tokenized file. `planned`: nothing will be trained, so a text that is not
  /// in the cache is replaced by a token file of about its length without content.
  explicit ModelTokens(std::function<void(const std::string& line)> note, bool planned = false)
      : note_(std::move(note)), planned_(planned) {}

  RunSpec of(RunSpec spec, const std::string& where);
  /// Throws an Error if the data of one rung belong to several tokenizers.
  Expanded of(Experiment experiment);

 private:
  DataSpec made(const Asked&) const;
  DataSpec model_tokens(const Asked&) const;

  std::function<void(const std::string&)> note_;
  bool planned_;
  std::map<std::string, DataSpec> made_;
  int64_t pair_tokens_ = 0;  ///< Asked::pair_tokens; 0: from the spec
};
}  // namespace optrush
