#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/cuda_on_threads.h"

/// What the warps of a kernel ask of memory, counted by threads of the host.
///
/// The test that includes the kernel's source is compiled with -fsanitize=thread, so the compiler calls a
/// function of record.cpp before each load and store. A request is the accesses of a warp's threads from one
/// place of the source, the k-th time each thread is there. Accesses that a GPU's compiler joins or keeps in
/// registers may differ.
namespace optrush::testing {
/// A tensor that a kernel reads or writes.
struct NamedMemory {
  std::string name;
  const void* begin;
  size_t bytes;
};

/// Requests to global memory. A GPU moves sectors of 32 bytes; a line of its caches has 128.
struct GlobalRequests {
  int64_t requests = 0;
  int64_t sectors = 0, least_sectors = 0;  ///< that the requests touch, and that their bytes would fill
  int64_t lines = 0, least_lines = 0;
};

/// Requests to shared memory. A wavefront reaches each of 32 banks of 4 bytes once. Requests of 8 bytes a
/// thread are served by halves of a warp, and of 16 bytes by quarters. An atomic reaches a word once for each
/// thread.
struct SharedRequests {
  int64_t requests = 0;
  int64_t wavefronts = 0, least_wavefronts = 0;  ///< with and without conflicts of banks
};

struct MemoryRequests {
  std::map<std::string, GlobalRequests> global;  ///< by direction and name: "read x"
  std::map<std::string, SharedRequests> shared;  ///< by direction: "read", "write", "atomic"
};

/// Runs kernel<<<blocks, threads>>> and counts requests to `memory` and to shared memory.
MemoryRequests requests_of(unsigned int blocks, Place threads, const std::vector<NamedMemory>& memory,
                           const std::function<void()>& kernel);

/// One line for each entry, with averages of a request. Where a count is not the least possible, both are in
/// it.
std::string table_of(const MemoryRequests&);
}  // namespace optrush::testing
