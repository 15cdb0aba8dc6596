// What a test asks of the stand-in, by dlsym or linked.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {
struct FakeCudaCounts {
  uint64_t launches, library_calls, memsets, waits, allocations, frees, replays;
  uint64_t copies_to_device, copies_to_host, copies_on_device;
  uint64_t faults;  ///< different ones
};
void fake_cuda_counts(FakeCudaCounts* counts);
/// Forgets counts and faults: what a test caused on purpose must not fail its process.
void fake_cuda_reset();
/// Writes the faults, a line each, as far as there is room; gives the bytes that all need.
size_t fake_cuda_faults(char* text, size_t room);
/// A caching allocator's events, for a test of record_stream.
void fake_cuda_block_allocated(void* p, size_t bytes, void* stream);
void fake_cuda_block_freed(void* p);
}
