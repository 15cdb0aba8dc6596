#pragma once
#include <string>
#include <string_view>

#include "results/run_result.h"

namespace optrush {
/// The parts of a result to keep. The others are skipped while reading.
struct ResultParts {
  bool details = true;  ///< phases of each step, and costs by operator and phase; the total is kept
  bool plan = true;

  /// The parts that a report needs of a run whose plan it already has.
  static constexpr ResultParts of_report() { return {false, false}; }
};

/// run_result_from_json() for a text. It throws the same errors, but does not check skipped parts. Each step
/// is converted when it is parsed, because a JSON document takes about 2.5 KB per step.
RunResult run_result_from_text(std::string_view text, const std::string& where, const ResultParts& = {});
/// Removes from a result what reading it would skip.
void leave_out(RunResult&, const ResultParts& kept);
}  // namespace optrush
