#pragma once
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "results/run_result.h"

namespace optrush {
/// The result of a run that throws: skipped, oom or failed, with the reason, and for oom the requested bytes.
/// `oom` covers allocators, the CUDA driver, cuBLAS and cuDNN.
RunResult failure_of(const std::exception&);

/// The failure of another command: skipped or failed, with the code and place of the error.
BadEnd end_of(const std::exception&);
/// Runs `command`. If it fails, writes the reason to the file `out` for the caller.
int answering(const std::filesystem::path& out, const std::function<int()>& command);

/// The bytes in "Tried to allocate 2.50 GiB" or "you tried to allocate 4096 bytes".
std::optional<int64_t> requested_bytes(const std::string& message);
}  // namespace optrush
