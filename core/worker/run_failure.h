#pragma once
#include <exception>
#include <optional>
#include <string>

#include "optrush/json.h"

namespace optrush {
/// How a run ends that throws: {"status": skipped, oom or failed, "reason", and for oom "requested_bytes"}.
/// Memory that runs out is `oom` whoever says so: an allocator, the CUDA driver, cuBLAS or cuDNN.
Json failure_of(const std::exception&);

/// "Tried to allocate 2.50 GiB", "you tried to allocate 4096 bytes".
std::optional<int64_t> requested_bytes(const std::string& message);
}  // namespace optrush
