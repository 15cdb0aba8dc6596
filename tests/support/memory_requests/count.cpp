// From the accesses of threads to requests of warps.
#include <algorithm>
#include <array>
#include <iomanip>
#include <iterator>
#include <set>
#include <sstream>
#include <tuple>

#include "support/memory_requests.h"
#include "support/memory_requests/record.h"

// The linker's borders of the program's static variables, to which `__shared__` ones belong.
extern "C" char __data_start[], _end[];  // NOLINT(bugprone-reserved-identifier,readability-identifier-naming)

namespace optrush::testing {
namespace {
constexpr unsigned int kWarp = 32;
constexpr uintptr_t kSector = 32, kLine = 128, kBank = 4, kBanks = 32;

/// What one thread of a warp asks for in a request.
struct Part {
  unsigned int lane;
  uintptr_t address;
  uint32_t bytes;
};
/// Block, warp, place, number of times that the thread was there.
using Key = std::tuple<uint32_t, unsigned int, uint64_t, uint32_t>;
struct Request {
  AccessKind kind;
  std::vector<Part> parts;
};

const char* name_of(AccessKind kind) {
  return kind == AccessKind::read ? "read" : kind == AccessKind::write ? "write" : "atomic";
}

template <class T>
bool is_in(const T& object, uintptr_t address) {
  const auto begin = reinterpret_cast<uintptr_t>(&object);
  return address >= begin && address < begin + sizeof(object);
}
bool is_shared(uintptr_t address) {
  return address >= reinterpret_cast<uintptr_t>(__data_start) &&
         address < reinterpret_cast<uintptr_t>(_end) && !is_in(blockDim, address) &&
         !is_in(gridDim, address) && !is_in(block, address);
}

std::map<Key, Request> requests_from(const std::vector<ThreadRecord>& records) {
  std::map<Key, Request> requests;
  for (unsigned int thread = 0; thread < records.size(); ++thread) {
    std::map<std::pair<uint32_t, uint64_t>, uint32_t> times;
    for (const Access& access : records[thread].accesses) {
      const uint32_t time = times[{access.block, access.place}]++;
      Request& request = requests[{access.block, thread / kWarp, access.place, time}];
      request.kind = access.kind;
      request.parts.push_back({thread % kWarp, access.address, access.bytes});
    }
  }
  return requests;
}

/// Pieces of `size` bytes that the parts touch.
int64_t touched(const std::vector<Part>& parts, uintptr_t size) {
  std::vector<uintptr_t> pieces;
  for (const Part& part : parts)
    for (uintptr_t piece = part.address / size; piece <= (part.address + part.bytes - 1) / size; ++piece)
      pieces.push_back(piece);
  std::ranges::sort(pieces);
  return std::unique(pieces.begin(), pieces.end()) - pieces.begin();
}

void add(GlobalRequests& to, const std::vector<Part>& parts) {
  const auto bytes = touched(parts, 1);
  const auto least = [&](uintptr_t size) {
    return (bytes + static_cast<int64_t>(size) - 1) / static_cast<int64_t>(size);
  };
  ++to.requests;
  to.sectors += touched(parts, kSector), to.least_sectors += least(kSector);
  to.lines += touched(parts, kLine), to.least_lines += least(kLine);
}

/// Wavefronts of the parts of one half or quarter of a warp, or of all of it.
int64_t wavefronts(const std::vector<Part>& parts, bool atomic) {
  std::array<std::multiset<uintptr_t>, kBanks> words;
  for (const Part& part : parts)
    for (uintptr_t word = part.address / kBank; word <= (part.address + part.bytes - 1) / kBank; ++word) {
      auto& bank = words.at(word % kBanks);
      if (atomic || !bank.contains(word)) bank.insert(word);
    }
  int64_t most = 0;
  for (const auto& bank : words) most = std::max(most, std::ssize(bank));
  return most;
}

void add(SharedRequests& to, const Request& request) {
  uint32_t widest = 0;
  for (const Part& part : request.parts) widest = std::max(widest, part.bytes);
  const unsigned int together = widest == 16 ? kWarp / 4 : widest == 8 ? kWarp / 2 : kWarp;
  ++to.requests;
  for (unsigned int first = 0; first < kWarp; first += together) {
    std::vector<Part> some;
    std::ranges::copy_if(request.parts, std::back_inserter(some),
                         [&](const Part& part) { return part.lane / together * together == first; });
    if (some.empty()) continue;
    to.wavefronts += wavefronts(some, request.kind == AccessKind::atomic);
    ++to.least_wavefronts;
  }
}

MemoryRequests counted(const std::vector<ThreadRecord>& records, const std::vector<NamedMemory>& memory) {
  MemoryRequests all;
  for (const auto& [key, request] : requests_from(records)) {
    const uintptr_t address = request.parts.front().address;
    const auto of = std::ranges::find_if(memory, [&](const NamedMemory& each) {
      const auto begin = reinterpret_cast<uintptr_t>(each.begin);
      return address >= begin && address < begin + each.bytes;
    });
    if (of != memory.end())
      add(all.global[std::string(name_of(request.kind)) + " " + of->name], request.parts);
    else if (is_shared(address))
      add(all.shared[name_of(request.kind)], request);
  }
  return all;
}
}  // namespace

MemoryRequests requests_of(unsigned int blocks, Place threads, const std::vector<NamedMemory>& memory,
                           const std::function<void()>& kernel) {
  std::vector<ThreadRecord> records(static_cast<size_t>(threads.x) * threads.y);
  launch(blocks, threads, [&] {
    record_into(&records[threadIdx.y * threads.x + threadIdx.x]);
    kernel();
    record_into(nullptr);
  });
  return counted(records, memory);
}

std::string table_of(const MemoryRequests& all) {
  std::ostringstream text;
  text << std::setprecision(3);
  const auto part = [&](int64_t count, int64_t least, int64_t requests, const char* of) {
    const auto mean = [&](int64_t sum) { return static_cast<double>(sum) / static_cast<double>(requests); };
    text << ", " << mean(count);
    if (count > least) text << " instead of " << mean(least);
    text << " " << of;
  };
  for (const auto& [name, of] : all.global) {
    text << name << ": " << of.requests << " requests";
    part(of.sectors, of.least_sectors, of.requests, "sectors");
    part(of.lines, of.least_lines, of.requests, "lines");
    text << "\n";
  }
  for (const auto& [name, of] : all.shared) {
    text << "shared " << name << ": " << of.requests << " requests";
    part(of.wavefronts, of.least_wavefronts, of.requests, "wavefronts");
    text << "\n";
  }
  return text.str();
}
}  // namespace optrush::testing
