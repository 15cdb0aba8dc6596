#pragma once
#include <filesystem>
#include <string>

#include "results/run_result.h"

namespace optrush {
/// Sums a Chrome trace of LibTorch's profiler: the seconds of its step by kind of work (kind_of_work.h), then
/// "gaps". They add up to the time of the step. Of work that overlaps, the first kind in the order of
/// `WorkKind` counts, so communication counts only where nothing computes.
///
/// With kernels of a GPU, the step lasts from its first kernel or copy to the end of its last, and gaps are
/// the times in which none runs. Otherwise it is the time of the phases, an operator has the time that it
/// takes itself, and gaps are the times in which no operator computes. What is launched or called outside of
/// the phases is not part of the step. Throws an Error if the text is not such a trace.
Phases traced_step(const std::string& trace);

/// Adds the sums of the run's trace to its result, of rank 0 if there are several; a note if the trace cannot
/// be read. A run without a trace is left as it is.
void add_traced_step(RunResult&, const std::filesystem::path& run_folder);
}  // namespace optrush
