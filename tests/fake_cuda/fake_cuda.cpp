#include "fake_cuda.h"

#include <cstring>
#include <string>

#include "api.h"
#include "uses.h"

using namespace fake_cuda;

FAKE_CUDA_API void fake_cuda_counts(FakeCudaCounts* out) {
  const Lock lock(mutex());
  const Counts& c = counts();
  *out = {c.launches,
          c.library_calls,
          c.memsets,
          c.waits,
          c.allocations,
          c.frees,
          c.replays,
          c.host_to_device.copies,
          c.device_to_host.copies,
          c.device_to_device.copies,
          faults().size()};
}
FAKE_CUDA_API void fake_cuda_reset() { forget_counts_and_faults(); }
FAKE_CUDA_API size_t fake_cuda_faults(char* text, size_t room) {
  const Lock lock(mutex());
  std::string all;
  for (const auto& [what, times] : faults()) all += what + "\n";
  if (room > 0) {
    const size_t written = all.copy(text, room - 1);
    text[written] = 0;
  }
  return all.size() + 1;
}
FAKE_CUDA_API void fake_cuda_block_allocated(void* p, size_t bytes, void* stream) {
  const Lock lock(mutex());
  if (const Stream* s = stream_of(static_cast<cudaStream_t>(stream)))
    block_allocated(reinterpret_cast<uint64_t>(p), bytes, *s);
}
FAKE_CUDA_API void fake_cuda_block_freed(void* p) { block_freed(reinterpret_cast<uint64_t>(p)); }
/// Called by the generated functions.
FAKE_CUDA_API void fake_cuda_missing(const char* name) { missing(name); }
