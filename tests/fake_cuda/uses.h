// The last use of memory by each stream. Detects a missing record_stream: an allocator reuses a block while
// another stream uses it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace fake_cuda {
struct Stream;

/// Records that the last work of the stream reads or writes at the address.
void note_use(uint64_t address, const Stream& stream);
/// Called when a caching allocator hands out a block for a stream or takes it back.
void block_allocated(uint64_t address, size_t bytes, const Stream& stream);
void block_freed(uint64_t address);
}  // namespace fake_cuda
