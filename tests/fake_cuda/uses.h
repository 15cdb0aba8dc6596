// Which stream used which memory last: an allocator that hands a block out again while another stream still
// uses it has lost a record_stream.
#pragma once
#include <cstddef>
#include <cstdint>

namespace fake_cuda {
struct Stream;

/// Work on the stream, the last one that it began, reads or writes at the address.
void note_use(uint64_t address, const Stream& stream);
/// A caching allocator hands out a block for a stream, or takes it back.
void block_allocated(uint64_t address, size_t bytes, const Stream& stream);
void block_freed(uint64_t address);
}  // namespace fake_cuda
