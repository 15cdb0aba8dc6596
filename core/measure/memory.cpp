#include "measure/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "machine/environment.h"
#include "optrush/advanced/machine.h"
#ifdef OPTRUSH_HAS_CUDA
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#endif

namespace optrush {
namespace {
constexpr int kPoison = 0xFF;  // NaN in every type of floating point, -1 in every integer

bool poisons() { return environment_switch("OPTRUSH_POISON"); }

/// Counts the bytes that tensors request. Size and source are stored in front of the tensor's bytes, so
/// counting needs no second allocation and no table. LibTorch's allocator calls posix_memalign. This one
/// requests a few more bytes from malloc and aligns them itself, so that malloc can reuse freed blocks.
class TrackingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::kCPU)};
    HostMemory* source = source_.load(std::memory_order_acquire);
    char* block = nullptr;
    char* data = nullptr;
    if (source != nullptr) {
      block = static_cast<char*>(source->allocate(bytes + kInFront));
      data = block + kInFront;
    } else {
      block = from_malloc(bytes);
      data = aligned(block + sizeof(Header));
    }
    const Header header{bytes, source, block};
    std::memcpy(data - sizeof(header), &header, sizeof(header));
    const int64_t now = current_.fetch_add(static_cast<int64_t>(bytes)) + static_cast<int64_t>(bytes);
    int64_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, size_t count) const override {
    std::memcpy(destination, source, count);
  }
  int64_t current() const { return current_; }
  int64_t peak() const { return peak_; }
  /// LibTorch's allocator does not report it.
  std::optional<int64_t> peak_reserved() const {
    const HostMemory* source = source_;
    return source != nullptr ? std::optional(source->peak_reserved()) : std::nullopt;
  }
  void reset_peak() {
    peak_ = current_.load();
    if (HostMemory* source = source_) source->reset_peak();
  }
  void use(std::shared_ptr<HostMemory> source) {
    const std::lock_guard lock(mutex_);
    source_.store(source.get(), std::memory_order_release);
    sources_.push_back(std::move(source));
  }

  void poison(bool on) { poisons_ = on; }

  static TrackingAllocator& instance() {
    static auto* const allocator = new TrackingAllocator;  // NOLINT: tensors outlive static destruction
    return *allocator;
  }

 private:
  struct Header {
    size_t bytes;
    HostMemory* source;  ///< null: malloc
    char* block;         ///< the block that the source returned
  };
  static constexpr size_t kInFront = c10::gAlignment;
  static_assert(sizeof(Header) <= kInFront);

  static char* aligned(char* place) {
    return place + (c10::gAlignment - reinterpret_cast<uintptr_t>(place) % c10::gAlignment) % c10::gAlignment;
  }
  static char* from_malloc(size_t bytes) {
    constexpr size_t kMost = sizeof(Header) + c10::gAlignment;
    void* block = bytes <= SIZE_MAX - kMost ? std::malloc(bytes + kMost) : nullptr;
    TORCH_CHECK(block != nullptr, "can't allocate memory: you tried to allocate ", bytes, " bytes");
    return static_cast<char*>(block);
  }
  static void release(void* data) {
    if (data == nullptr) return;
    Header header{};
    std::memcpy(&header, static_cast<char*>(data) - sizeof(header), sizeof(header));
    instance().current_ -= static_cast<int64_t>(header.bytes);
    if (instance().poisons_) std::memset(data, kPoison, header.bytes);
    if (header.source != nullptr)
      header.source->release(header.block, header.bytes + kInFront);
    else
      std::free(header.block);
  }
  std::atomic<int64_t> current_{0}, peak_{0};
  std::atomic<bool> poisons_{false};
  std::atomic<HostMemory*> source_{nullptr};
  std::mutex mutex_;
  /// all sources in use; a block may come from any of them
  std::vector<std::shared_ptr<HostMemory>> sources_;
};
}  // namespace

void install_cpu_memory_tracking() {
  mallopt(M_MMAP_MAX, 0);  // disables mmap, because its threshold can't be raised above 32 MiB
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
  c10::SetCPUAllocator(&TrackingAllocator::instance(), /*priority=*/1);
  TrackingAllocator::instance().poison(poisons());
}

void poison_freed_gpu_memory() {
#ifdef OPTRUSH_HAS_CUDA
  static const bool kOnce = [] {
    if (!poisons()) return false;
    at::globalContext().lazyInitDevice(at::kCUDA);  // the allocators of the devices exist
    using c10::CachingDeviceAllocator::TraceEntry;
    // A block is complete when all streams that recorded it are done with it.
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([](const TraceEntry& freed) {
      if (freed.action_ == TraceEntry::FREE_COMPLETED)
        cudaMemsetAsync(reinterpret_cast<void*>(freed.addr_), kPoison, freed.size_,  // NOLINT: an address
                        static_cast<cudaStream_t>(freed.stream_));
    });
    return true;
  }();
  static_cast<void>(kOnce);
#endif
}

void use_host_memory(std::shared_ptr<HostMemory> source) {
  TrackingAllocator::instance().use(std::move(source));
}

int64_t cpu_allocated() { return TrackingAllocator::instance().current(); }

int64_t allocated_now([[maybe_unused]] at::Device device) {
#ifdef OPTRUSH_HAS_CUDA
  if (device.is_cuda()) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    return stats.active_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
  }
#endif
  return cpu_allocated();
}

void reset_memory_peak([[maybe_unused]] at::Device device) {
#ifdef OPTRUSH_HAS_CUDA
  if (device.is_cuda()) {
    c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
    return;
  }
#endif
  TrackingAllocator::instance().reset_peak();
}

MemoryPeak memory_peak([[maybe_unused]] at::Device device) {
#ifdef OPTRUSH_HAS_CUDA
  if (device.is_cuda()) {
    using c10::CachingAllocator::StatType;
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    const auto aggregate = static_cast<size_t>(StatType::AGGREGATE);
    // Active, not allocated bytes: a freed block that another stream still uses is in use.
    return {stats.active_bytes[aggregate].peak, stats.reserved_bytes[aggregate].peak};
  }
#endif
  const auto& allocator = TrackingAllocator::instance();
  return {allocator.peak(), allocator.peak_reserved()};
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}
}  // namespace optrush
