#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "results/run_result.h"

namespace optrush {
/// Whether the phases of single steps are kept: most of a step's memory, which exports alone use.
enum class StepPhases : uint8_t { dropped, kept };

/// run_result_from_json() of a text, with the same errors. The steps of a long run are read straight from the
/// text: a document of them would take some 2.5 KB each.
RunResult run_result_from_text(std::string_view text, const std::string& where, StepPhases);
}  // namespace optrush
