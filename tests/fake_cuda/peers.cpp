#include "peers.h"

#include <algorithm>
#include <map>

namespace fake_cuda {
namespace {
/// Calls by stream and number of work. Work of a stream ends in order.
std::map<int, std::map<uint64_t, std::vector<CallId>>>& waiting() {
  static auto* const waiting = new std::map<int, std::map<uint64_t, std::vector<CallId>>>;
  return *waiting;
}
}  // namespace

void wait_for_peers(const Stream& stream, CallId call) {
  waiting()[stream.number][stream.clock.at(stream.number)].push_back(call);
}

std::vector<CallId> unfinished_calls(const Clock& clock) {
  std::vector<CallId> unfinished;
  for (auto& [stream, works] : waiting()) {
    const auto reached = clock.find(stream);
    if (reached == clock.end()) continue;
    const auto end = works.upper_bound(reached->second);
    if (end == works.begin()) continue;
    const std::vector<CallId>& last = std::prev(end)->second;
    const size_t before = unfinished.size();
    std::ranges::copy_if(last, std::back_inserter(unfinished),
                         [](CallId id) { return !RanksCalls::get().is_done(id); });
    if (unfinished.size() == before) works.erase(works.begin(), end);
  }
  return unfinished;
}

void await_peers(cudaStream_t stream) {
  await([stream] {
    const Stream* s = stream_of(stream);
    return !s || s->capture || unfinished_calls(s->clock).empty();
  });
}
}  // namespace fake_cuda
