// Counts of a process, and faults, for which a GPU would return garbage or crash.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace fake_cuda {
/// One lock for the whole library, because calls are short.
using Lock = std::lock_guard<std::recursive_mutex>;
std::recursive_mutex& mutex();

struct Traffic {
  uint64_t copies = 0, bytes = 0;
};
struct Counts {
  uint64_t launches = 0, library_calls = 0, memsets = 0, waits = 0, allocations = 0, frees = 0, replays = 0;
  Traffic host_to_device, device_to_host, device_to_device;
  std::map<std::string, uint64_t> kernels, calls;  ///< by name
};
Counts& counts();

thread_local extern cudaError_t last_error;

/// Records an error for cudaGetLastError(). For errors that a GPU also returns, such as out of memory.
cudaError_t fail(cudaError_t error);
/// Prints a fault on stderr and lists it in the report. `where` is the called function.
cudaError_t fault(cudaError_t error, const std::string& where, const std::string& why);
const std::map<std::string, uint64_t>& faults();
void forget_counts_and_faults();

/// Writes a line to FAKE_CUDA_TRACE, if set.
void trace(const std::string& line);
/// Ends the process, for a function that is not implemented.
[[noreturn]] void missing(const char* name);
}  // namespace fake_cuda
