// Work on this process's streams that waits for other ranks.
#pragma once
#include <unistd.h>

#include <vector>

#include "ledger.h"
#include "ranks_calls.h"
#include "streams.h"

namespace fake_cuda {
/// Marks the last work of the stream as a collective call.
void wait_for_peers(const Stream& stream, CallId call);
/// The last unfinished call of each stream up to the clock.
std::vector<CallId> unfinished_calls(const Clock& clock);

/// Waits until `done` returns true under the lock. The caller must not hold the lock, because another thread
/// may be the peer.
template <class Done>
void await(Done&& done) {
  constexpr useconds_t kPause = 200;
  while (true) {
    {
      const Lock lock(mutex());
      if (done()) return;
    }
    usleep(kPause);
  }
}
/// Waits until the stream's work is done.
void await_peers(cudaStream_t stream);
}  // namespace fake_cuda
