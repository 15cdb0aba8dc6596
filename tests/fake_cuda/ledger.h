// What happened in a process: counts, and the faults that a GPU would have answered with garbage or a crash.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace fake_cuda {
/// One lock for all of the library: calls are short.
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

/// Remembers the error as cudaGetLastError() gives it; an error that a GPU gives as well, such as out of
/// memory.
cudaError_t fail(cudaError_t error);
/// A fault: said at once on stderr and listed in the report. `where` is the function that was called.
cudaError_t fault(cudaError_t error, const std::string& where, const std::string& why);
const std::map<std::string, uint64_t>& faults();
void forget_counts_and_faults();

/// A line of FAKE_CUDA_TRACE, where there is one.
void trace(const std::string& line);
/// Ends the process: a function that is not written.
[[noreturn]] void missing(const char* name);
}  // namespace fake_cuda
