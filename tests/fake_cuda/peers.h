// Work of this process's streams that ends only when other ranks have done their part.
#pragma once
#include <unistd.h>

#include <vector>

#include "ledger.h"
#include "ranks_calls.h"
#include "streams.h"

namespace fake_cuda {
/// The last work that the stream began is a call that ranks make together.
void wait_for_peers(const Stream& stream, CallId call);
/// Calls that are not done, of the work that the clock reaches: the last ones of each stream.
std::vector<CallId> unfinished_calls(const Clock& clock);

/// Ends when `done`, which is asked under the lock, says so. The lock must not be held: another thread may be
/// the peer.
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
/// Ends when the stream's work is done.
void await_peers(cudaStream_t stream);
}  // namespace fake_cuda
