#pragma once
#include <exception>
#include <optional>
#include <string>

#include "results/run_result.h"

namespace optrush {
/// How a run ends that throws: skipped, oom or failed, with the reason, and for oom the bytes requested. Out
/// of memory is `oom`, whether an allocator, the CUDA driver, cuBLAS or cuDNN reports it.
RunResult failure_of(const std::exception&);

/// Why a worker has no answer: skipped, or failed, with the code and place of the error.
BadEnd end_of(const std::exception&);

/// "Tried to allocate 2.50 GiB", "you tried to allocate 4096 bytes".
std::optional<int64_t> requested_bytes(const std::string& message);
}  // namespace optrush
