#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "results/run_result.h"

namespace optrush {
/// What the time of a step is used for, in the order of the report. `elementwise`: everything that computes
/// or copies and has no other kind. `none`: calls that compute nothing, such as views and autograd's own
/// work.
enum class WorkKind : uint8_t { product, attention, loss, elementwise, optimizer, communication, none };

/// The kind of a kernel of a GPU or an operator of LibTorch, by its name in a trace.
WorkKind kind_of_work(std::string_view name);
/// The kind of what `name` does when it is called by something of the kind `caller`. Within attention all is
/// attention; a product within a loss is a product.
WorkKind kind_of_work(std::string_view name, WorkKind caller);

/// Sums a Chrome trace of LibTorch's profiler: the seconds of its step by kind of work, then "gaps". They add
/// up to the time of the step. Of work that overlaps, the first kind in the order of `WorkKind` counts, so
/// communication counts only where nothing computes.
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
