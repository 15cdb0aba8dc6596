#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "results/run_result.h"

namespace optrush {
/// What is kept of a result. The rest of its text is passed over.
struct ResultParts {
  bool phases_of_steps = true;
  bool plan = true;
  bool costs_of_operators = true;  ///< of single operators and of the phases; the total is always kept

  /// What a report needs of a run whose plan is known.
  static constexpr ResultParts of_report() { return {false, false, false}; }
};

/// run_result_from_json() of a text. Errors are the same, but parts that are skipped are not checked. The
/// steps of a long run are read straight from the text: a document of them would take some 2.5 KB each.
RunResult run_result_from_text(std::string_view text, const std::string& where, const ResultParts& = {});
}  // namespace optrush
