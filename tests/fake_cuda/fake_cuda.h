// Functions of the fake library for tests, by dlsym or linked.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {
struct FakeCudaCounts {
  uint64_t launches, library_calls, memsets, waits, allocations, frees, replays;
  uint64_t copies_to_device, copies_to_host, copies_on_device;
  uint64_t faults;  ///< number of different faults
};
void fake_cuda_counts(FakeCudaCounts* counts);
/// Resets counts and faults, so that planted faults do not fail the process.
void fake_cuda_reset();
/// Writes the faults into `text`, one per line, as far as there is room. Returns the bytes that all need.
size_t fake_cuda_faults(char* text, size_t room);
/// Events of a caching allocator, for a test of record_stream.
void fake_cuda_block_allocated(void* p, size_t bytes, void* stream);
void fake_cuda_block_freed(void* p);
}
