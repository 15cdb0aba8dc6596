#pragma once
#include <string>
#include <vector>

#include "optrush/options.h"
#include "optrush/run.h"

namespace optrush::float8 {
/// The linears of the blocks that a user selects, by their blocks and their names.
class Selection {
 public:
  Selection() = default;
  /// Reads skip_first, skip_last and linears.
  explicit Selection(const Options&);

  /// Counts the blocks of the whole model. Throws an Error if a name is unknown or no linear is selected.
  void check(const Run&);
  bool has(const Module&) const;

 private:
  void check_names(const std::vector<Module*>& linears) const;

  int64_t skip_first_ = 0, skip_last_ = 0, blocks_ = 0;
  std::vector<std::string> names_;  ///< empty: all
};
}  // namespace optrush::float8
