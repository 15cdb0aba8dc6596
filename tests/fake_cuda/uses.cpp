#include "uses.h"

#include <map>
#include <string>
#include <vector>

#include "ledger.h"
#include "streams.h"

namespace fake_cuda {
namespace {
struct Block {
  size_t bytes = 0;
  bool live = false;
  Clock uses;  // the last work of each stream on the block
};
std::map<uint64_t, Block>& blocks() {
  static auto* const blocks = new std::map<uint64_t, Block>;
  return *blocks;
}
}  // namespace

void note_use(uint64_t address, const Stream& stream) {
  auto it = blocks().upper_bound(address);
  if (it == blocks().begin()) return;
  --it;
  if (address < it->first + it->second.bytes) it->second.uses[stream.number] = stream.clock.at(stream.number);
}

void block_allocated(uint64_t address, size_t bytes, const Stream& stream) {
  const Lock lock(mutex());
  auto it = blocks().lower_bound(address);
  if (it != blocks().begin() && std::prev(it)->first + std::prev(it)->second.bytes > address) --it;
  while (it != blocks().end() && it->first < address + bytes) {
    for (const auto& [user, work] : it->second.uses)
      if (user != stream.number && !host_has_waited_for(user, work, &stream))
        fault(cudaErrorIllegalAddress, "allocator",
              "memory is handed out for stream " + std::to_string(stream.number) + " while stream " +
                  std::to_string(user) + " still uses it (a tensor was freed without record_stream)");
    it = blocks().erase(it);
  }
  blocks()[address] = {bytes, true, {}};
}

void block_freed(uint64_t address) {
  const Lock lock(mutex());
  const auto it = blocks().find(address);
  if (it != blocks().end()) it->second.live = false;
}
}  // namespace fake_cuda
