#include "work.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "device_memory.h"
#include "ledger.h"
#include "settings.h"
#include "streams.h"
#include "uses.h"

namespace fake_cuda {
namespace {
struct Pinned {
  size_t bytes = 0;
  bool registered = false;
};
struct All {
  std::set<const void*> kernels;
  std::map<const Kernel*, std::string> names;
  std::map<uint64_t, Pinned> pinned;
};
All& all() {
  static auto* const all = new All;
  return *all;
}

std::string shape_of(const Kernel& kernel, dim3 grid, dim3 block, size_t shared) {
  const auto three = [](dim3 d) {
    return std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z);
  };
  return name_of(kernel).substr(0, 200) + " grid " + three(grid) + " block " + three(block) + " shared " +
         std::to_string(shared);
}

void note(const Work& work) {
  if (work.kernel) {
    ++counts().launches;
    ++counts().kernels[name_of(*work.kernel)];
    trace("launch " + shape_of(*work.kernel, work.grid, work.block, work.shared));
  } else {
    ++counts().library_calls;
    ++counts().calls[work.name];
    trace("call " + work.name);
  }
}

void count(const Work& work) {
  forget_values();
  note(work);
}

/// Adds work to the capture of the stream, or does it at once.
void submit(Stream& stream, const Work& work) {
  if (stream.capture)
    stream.capture->graph->work.push_back(work);
  else
    count(work);
}

bool inside_an_allocation(const void* p, size_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(p);
  const Allocation a = allocation_at(address);
  return a && address + bytes <= a.address + a.bytes;
}

/// Empty if the stream's device can use the memory, else the reason.
std::string wrong_memory(const void* p, const Stream& stream) {
  if (device_of(p) >= 0) {
    if (!allocation_at(reinterpret_cast<uint64_t>(p))) return "freed device memory";
    if (device_of(p) != stream.device)
      return "memory of device " + std::to_string(device_of(p)) + " on device " +
             std::to_string(stream.device);
    return "";
  }
  return is_pinned(p) ? "" : "memory of the host";
}

/// Arguments of 8 bytes that are addresses must point to memory that the kernel can access.
std::string wrong_argument(const Kernel& kernel, void** arguments, const Stream& stream) {
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    if (!arguments[i]) return "argument " + std::to_string(i) + " is missing";
    if (kernel.parameters[i].bytes != 8) continue;
    uint64_t value = 0;
    std::memcpy(&value, arguments[i], sizeof value);
    const auto* p = reinterpret_cast<const void*>(value);
    unsigned char page = 0;
    const bool of_host = value > (1ULL << 32) && value < (1ULL << 47) && device_of(value) < 0 &&
                         mincore(reinterpret_cast<void*>(value & ~4095ULL), 1, &page) == 0;
    if (!of_host && device_of(value) < 0) continue;  // a number
    if (const std::string why = wrong_memory(p, stream); !why.empty())
      return "argument " + std::to_string(i) + " points at " + why;
    note_use(value, stream);
  }
  return "";
}
}  // namespace

Kernel* new_kernel(const std::string& symbol) {
  auto* kernel = new Kernel;
  kernel->symbol = symbol;
  all().kernels.insert(kernel);
  return kernel;
}
bool is_kernel(const void* handle) { return all().kernels.contains(handle); }
const std::string& name_of(const Kernel& kernel) {
  std::string& name = all().names[&kernel];
  if (name.empty()) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> text(
        abi::__cxa_demangle(kernel.symbol.c_str(), nullptr, nullptr, &status), std::free);
    name = status == 0 && text ? text.get() : kernel.symbol;
  }
  return name;
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaStream_t handle, const char* where) {
  const Lock lock(mutex());
  if (bytes == 0) return cudaSuccess;
  Stream* stream = stream_of(handle);
  if (!stream) return fault(cudaErrorInvalidResourceHandle, where, "no such stream");
  const bool to_device = device_of(to) >= 0, from_device = device_of(from) >= 0;
  for (const void* side : {static_cast<const void*>(to), from})
    if (device_of(side) >= 0 && !inside_an_allocation(side, bytes))
      return fault(cudaErrorIllegalAddress, where,
                   std::string(side == to ? "destination" : "source") + " is not inside an allocation");
  if (const cudaError_t bad = begin_work(stream, where); bad != cudaSuccess) return bad;
  for (const void* side : {static_cast<const void*>(to), from})
    if (device_of(side) >= 0) note_use(reinterpret_cast<uint64_t>(side), *stream);
  const char* direction = to_device && from_device ? "device to device"
                          : to_device              ? "host to device"
                          : from_device            ? "device to host"
                                                   : "host to host";
  if (stream->capture) {
    if ((!to_device && !is_pinned(to)) || (!from_device && !is_pinned(from))) {
      break_capture(stream);
      return fault(cudaErrorStreamCaptureUnsupported, where, "a copy of pageable memory in a capture");
    }
    stream->capture->graph->work.push_back({nullptr, std::string("copy ") + direction, {}, {}, bytes});
    return cudaSuccess;
  }
  Traffic& traffic = to_device && from_device ? counts().device_to_device
                     : to_device              ? counts().host_to_device
                                              : counts().device_to_host;
  ++traffic.copies;
  traffic.bytes += bytes;
  trace(std::string("copy ") + direction + " " + std::to_string(bytes));
  const auto t = reinterpret_cast<uint64_t>(to), f = reinterpret_cast<uint64_t>(from);
  if (to_device && from_device)
    copy_shadow(t, f, bytes);
  else if (to_device)
    write_shadow(t, from, bytes);
  else if (from_device)
    read_shadow(to, f, bytes);
  else
    std::memmove(to, from, bytes);
  return cudaSuccess;
}

cudaError_t fill(void* to, uint32_t value, size_t width, size_t count, cudaStream_t handle,
                 const char* where) {
  const Lock lock(mutex());
  if (width * count == 0) return cudaSuccess;
  Stream* stream = stream_of(handle);
  if (!stream) return fault(cudaErrorInvalidResourceHandle, where, "no such stream");
  if (device_of(to) < 0 || !inside_an_allocation(to, width * count))
    return fault(cudaErrorIllegalAddress, where, "the memory is not inside an allocation");
  if (const cudaError_t bad = begin_work(stream, where); bad != cudaSuccess) return bad;
  note_use(reinterpret_cast<uint64_t>(to), *stream);
  if (stream->capture) {
    stream->capture->graph->work.push_back({nullptr, "memset", {}, {}, width * count});
    return cudaSuccess;
  }
  ++counts().memsets;
  trace("memset " + std::to_string(width * count));
  fill_shadow(reinterpret_cast<uint64_t>(to), value, width, count);
  return cudaSuccess;
}

cudaError_t library_call(const std::string& what, cudaStream_t handle, const std::vector<const void*>& used,
                         const std::optional<Written>& written) {
  const Lock lock(mutex());
  Stream* stream = stream_of(handle);
  if (!stream) return fault(cudaErrorInvalidResourceHandle, what, "no such stream");
  for (const void* p : used)
    if (const std::string why = wrong_memory(p, *stream); !why.empty())
      return fault(cudaErrorIllegalAddress, what, "a matrix lies in " + why);
  if (const cudaError_t bad = begin_work(stream, what.c_str()); bad != cudaSuccess) return bad;
  for (const void* p : used) note_use(reinterpret_cast<uint64_t>(p), *stream);
  const Work work{nullptr, what, {}, {}, 0};
  if (written && !stream->capture) {
    forget(written->address, written->bytes);
    note(work);
  } else {
    submit(*stream, work);
  }
  return cudaSuccess;
}

cudaError_t launch(Kernel* kernel, dim3 grid, dim3 block, size_t shared, cudaStream_t handle,
                   void** arguments, const char* where) {
  const Lock lock(mutex());
  if (!kernel) return fault(cudaErrorInvalidDeviceFunction, where, "no such kernel");
  Stream* stream = stream_of(handle);
  if (!stream) return fault(cudaErrorInvalidResourceHandle, where, "no such stream");
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const std::string shape = shape_of(*kernel, grid, block, shared);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0)
    return fault(cudaErrorInvalidConfiguration, where, "nothing to run: " + shape);
  if (grid.x > 0x7fffffffU || grid.y > 65535 || grid.z > 65535)
    return fault(cudaErrorInvalidConfiguration, where, "too large a grid: " + shape);
  if (block.x > 1024 || block.y > 1024 || block.z > 64 ||
      threads > static_cast<uint64_t>(kernel->max_threads))
    return fault(cudaErrorInvalidConfiguration, where,
                 "too many threads (at most " + std::to_string(kernel->max_threads) + "): " + shape);
  if (shared + kernel->static_shared > (48U << 10) && static_cast<int>(shared) > kernel->dynamic_shared)
    return fault(cudaErrorInvalidValue, where, "more shared memory than was asked for: " + shape);
  if (const cudaError_t bad = begin_work(stream, where); bad != cudaSuccess) return bad;
  if (kernel->parameters_known && arguments)
    if (const std::string why = wrong_argument(*kernel, arguments, *stream); !why.empty())
      return fault(cudaErrorIllegalAddress, where, why + ": " + shape);
  submit(*stream, {kernel, {}, grid, block, shared});
  return cudaSuccess;
}

void replay(const Graph& graph, Stream& stream) {
  ++counts().replays;
  trace("replay");
  for (const Work& work : graph.work) {
    ++stream.clock[stream.number];
    count(work);
  }
}

void* allocate_pinned(size_t bytes) {
  const Lock lock(mutex());
  void* p = mmap(nullptr, std::max<size_t>(bytes, 1), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  madvise(p, bytes, MADV_HUGEPAGE);  // avoids page faults when a large model is initialized
  all().pinned[reinterpret_cast<uint64_t>(p)] = {std::max<size_t>(bytes, 1), false};
  return p;
}
bool release_pinned(void* p) {
  const Lock lock(mutex());
  const auto it = all().pinned.find(reinterpret_cast<uint64_t>(p));
  if (it == all().pinned.end() || it->second.registered) return false;
  munmap(p, it->second.bytes);
  all().pinned.erase(it);
  return true;
}
void register_pinned(void* p, size_t bytes) {
  const Lock lock(mutex());
  all().pinned[reinterpret_cast<uint64_t>(p)] = {bytes, true};
}
bool unregister_pinned(void* p) {
  const Lock lock(mutex());
  const auto it = all().pinned.find(reinterpret_cast<uint64_t>(p));
  if (it == all().pinned.end() || !it->second.registered) return false;
  all().pinned.erase(it);
  return true;
}
bool is_pinned(const void* p) {
  const Lock lock(mutex());
  const auto address = reinterpret_cast<uint64_t>(p);
  auto it = all().pinned.upper_bound(address);
  if (it == all().pinned.begin()) return false;
  --it;
  return address < it->first + it->second.bytes;
}
}  // namespace fake_cuda
