#pragma once
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/json.h"

namespace optrush::lora {
/// Whether `name` in PEFT's modules_to_save names the module or one that contains it: a path that ends with
/// `name`, also inside of a word, so "norm" names every norm.
bool is_saved(std::string_view path, std::string_view name);

/// PEFT's rank_pattern or alpha_pattern: values of modules whose path, or its end after a dot, matches a
/// regular expression.
class Patterns {
 public:
  Patterns() = default;
  /// `option`: the name of the option, for messages.
  Patterns(std::string option, const Json& values);

  /// The value of the module's pattern, or `otherwise`. Throws an Error if two patterns match: PEFT would
  /// take the first one of its file.
  double value_of(const std::string& path, double otherwise);
  /// Throws an Error if a pattern matched none of these modules.
  void refuse_unused(const std::vector<std::string>& paths) const;

 private:
  struct Pattern {
    std::string text;
    std::regex expression;
    double value;
    bool used = false;
  };
  std::string option_;
  std::vector<Pattern> patterns_;
};
}  // namespace optrush::lora
